#compdef preflight
# zsh completion for preflight
_preflight() {
    local -a commands
    commands=(
        'demo:the whole story on a built-in plant' 'list:plants, methods or suites'
        'calibrate:builds a kit' 'design:designs group probes' 'check:one readiness check' 'serve:ask/tell in JSON lines'
        'replay:recomputes a journal' 'explain:why go or no-go, in words'
        'rollout:simulation trace as CSV' 'kit:shows a kit' 'data:shows transitions'
        'train:learns a world model' 'model:shows or assesses a model'
        'bench:the experiments of the paper')
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case $words[2] in
    demo) _arguments '--fault[secret fault J:G]:fault' '--seed[seed]:number' ;;
    list) _arguments '1:what:(plants methods suites)' '--json[as JSON]' ;;
    calibrate) _arguments '-o[kit file]:file:_files' '--config[YAML]:file:_files' '*--set[a.b=v]:setting' \
        '--method[method]:id' '--seed[seed]:number' '--threads[threads]:number' \
        '--recordings[CSV]:file:_files' '--predictor[predictor]:(twin ensemble\:)' '--probes[designed, single or a library]:file:_files' '--json[as JSON]' '*:plant' ;;
    design) _arguments '-o[library file]:file:_files' '--config[YAML]:file:_files' '*--set[a.b=v]:setting' '--seed[seed]:number' \
        '--threads[threads]:number' '--predictor[predictor]:(twin ensemble\:)' '--plot[SVG or PNG]:file:_files' '--json[as JSON]' '*:plant' ;;
    check) _arguments '*--fault[J:G]:fault' '--plant[plant]:name' '--model[learned model]:file:_files' '--seed[seed]:number' '--method[method]:id' \
        '--journal[journal]:file:_files' '--certificate[certificate]:file:_files' '--json[as JSON]' '*:kit:_files' ;;
    serve) _arguments '--journal[journal]:file:_files' '--socket[Unix socket]:file:_files' '--plant[plant]:name' \
        '--model[learned model]:file:_files' '--method[method]:id' '--seed[seed]:number' '*:kit:_files' ;;
    rollout) _arguments '--commands[CSV]:file:_files' '*--fault[J:G]:fault' '--seed[seed]:number' '--mean-reset' \
        '--no-noise' '--state[CSV]:file:_files' '--what:(output state)' '*:plant' ;;
    kit) _arguments '1:what:(show)' '--json[as JSON]' '*:kit:_files' ;;
    data) _arguments '1:what:(show)' '--json[as JSON]' '*:data:_files' ;;
    train) _arguments '-o[model file]:file:_files' '--profile:(quick standard paper)' '--config[YAML]:file:_files' '*--set[key=v]:setting' \
        '--data[transitions]:file:_files' '--seed[seed]:number' '--threads[threads]:number' '--log[CSV]:file:_files' \
        '--plot[SVG or PNG]:file:_files' '--json[as JSON]' '*:plant' ;;
    model) _arguments '1:what:(show assess)' '--plant[plant]:name' '--json[as JSON]' '*:model:_files' ;;
    bench) _arguments '1:what:(list run status table figure verify)' '--profile:(quick standard paper)' \
        '--db[database]:file:_files' '--threads[threads]:number' '*--only[key=a,b]:clause' '--retry[failed trials once more]' '--format:(md csv tex)' \
        '-o[folder]:folder:_files -/' '*:suite' ;;
    *) _files ;;
    esac
}
_preflight "$@"
