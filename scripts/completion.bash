# bash completion for preflight
_preflight()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    local commands="demo list calibrate design check serve replay explain rollout kit data train model bench"
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "$commands --help --version" -- "$current"))
        return
    fi
    case $previous in
    --config|--journal|--certificate|--recordings|--commands|--state|--socket|--model|--data|--log|--plot|-o)
        COMPREPLY=($(compgen -f -- "$current"))
        return ;;
    --method)
        COMPREPLY=($(compgen -W "$(preflight list methods 2>/dev/null | cut -d' ' -f1)" -- "$current"))
        return ;;
    --plant)
        COMPREPLY=($(compgen -W "$(preflight list plants 2>/dev/null | cut -d' ' -f1)" -- "$current"))
        return ;;
    --predictor)
        COMPREPLY=($(compgen -W "twin ensemble:" -- "$current"))
        return ;;
    --probes)
        COMPREPLY=($(compgen -W "designed single" -- "$current") $(compgen -f -- "$current"))
        return ;;
    --profile)
        COMPREPLY=($(compgen -W "quick standard paper" -- "$current"))
        return ;;
    --what)
        COMPREPLY=($(compgen -W "output state" -- "$current"))
        return ;;
    esac
    local options=
    case $command in
    demo) options="--fault --seed" ;;
    list) options="plants methods suites --json" ;;
    calibrate) options="-o --config --set --predictor --probes --method --seed --threads --recordings --json" ;;
    design) options="-o --predictor --config --set --seed --threads --plot --json" ;;
    check) options="--plant --model --fault --seed --method --journal --certificate --json" ;;
    serve) options="--journal --socket --plant --model --method --seed" ;;
    replay) options="--json" ;;
    rollout) options="--commands --fault --seed --mean-reset --no-noise --state --what" ;;
    kit|data) options="show --json" ;;
    train) options="-o --profile --config --set --data --seed --threads --log --plot --json" ;;
    model) options="show assess --plant --json" ;;
    bench) options="list run status table figure verify $(preflight list suites 2>/dev/null | cut -d' ' -f1) --profile --threads --db --only --retry --set --data --config --format --sample -o --json" ;;
    esac
    case $current in
    -*) COMPREPLY=($(compgen -W "$options --help" -- "$current")) ;;
    *)
        case $command in
        list|bench) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
        kit|data|model) COMPREPLY=($(compgen -W "$options" -- "$current") $(compgen -f -- "$current")) ;;
        calibrate|design|rollout|train)
            COMPREPLY=($(compgen -W "$(preflight list plants 2>/dev/null | cut -d' ' -f1)" -- "$current")) ;;
        *) COMPREPLY=($(compgen -f -- "$current")) ;;
        esac ;;
    esac
}
complete -F _preflight preflight
