// SPDX-FileCopyrightText: The preflight authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PF_SETTINGS_H
#define PF_SETTINGS_H

#include "schema.h"
#include "host/arena.h"
#include "host/text.h"
#include "preflight/kit.h"

#include "settings.def" // the enums

// The types of the struct's fields by kind.
typedef double pf_setting_NUMBER;
typedef double pf_setting_WHOLE; // an integer in 0..2^53-1
typedef int pf_setting_COUNT;
typedef int pf_setting_FLAG;
typedef int pf_setting_WORD; // the value of an enum
typedef pf_config_numbers pf_setting_NUMBERS;

// All settings, one field per row of settings.def. Not given: NaN, -1, n = 0. It may be copied;
// lists stay with whoever read them.
typedef struct pf_settings {
#define PF_SETTING(field, key, type, ...) pf_setting_##type field;
#include "settings.def"
} pf_settings;

// Whose defaults count: those of a field kit, or those of the paper's suites.
typedef enum pf_settings_use { PF_SETTINGS_FIELD, PF_SETTINGS_SUITE } pf_settings_use;

// Nothing is given.
void pf__settings_clear(pf_settings *settings);

// Fills whatever is not given with its default. What depends on the machine stays as it is.
void pf__settings_complete(pf_settings *settings, pf_settings_use use);

// All of them by default.
pf_settings pf__settings_default(pf_settings_use use);

// Takes over what is given; lists are copied into the arena.
void pf__settings_take(pf_settings *settings, const pf_settings *given, pf_arena *arena);

// Refuses an override "key=value" whose key is no setting of a configuration.
pf_status pf__settings_known(const char *assignment, pf_error *error);

// The key of a setting that is given and that suites have for their group methods alone; NULL:
// none.
const char *pf__settings_given_group(const pf_settings *settings);

// The key of a reading that is given and that the field's verdict has no use for; NULL: none.
const char *pf__settings_given_reading(const pf_settings *settings);

// Members of a JSON object, one per setting: all of them, or those that the hash of a suite holds,
// without and with group methods, or those that a kit holds.
typedef enum pf_settings_which {
    PF_SETTINGS_ALL,
    PF_SETTINGS_HASH,
    PF_SETTINGS_HASH_GROUPS,
    PF_SETTINGS_KIT
} pf_settings_which;
void pf__settings_json(pf_text *out, const pf_settings *settings, pf_settings_which which);

// A setting as users see it. Texts live until the next call with the same struct.
typedef struct pf_setting_info {
    const char *key, *old; // old: its former name. Nullable.
    const char *group, *help;
    bool config;                     // a configuration and --set of calibrate and design know it
    bool suite, axis, group_methods; // a suite knows it; as a list; for its group methods alone
    bool kit;                        // the kit holds it
    char range[64];
    char otherwise[2][16]; // its default by pf_settings_use; "auto": found from the machine
} pf_setting_info;

// The setting at an index from 0; false after the last. Those that nobody may set are left out.
bool pf__settings_at(int index, pf_setting_info *info);

// The reading at an index from 0, as "key=value", one for each value of each reading; false after
// the last. `stop` is one of them. *common: all suites have it unless they are told otherwise.
bool pf__settings_reading(int index, char *out, size_t size, bool *common);

// What ranges alone cannot say; node is the mapping that the settings were read from.
pf_status pf__settings_check(const pf__yaml_node *node, const pf_settings *settings,
                             pf_error *error);

// The one number that a list stands for: the only one given, else the default.
double pf__settings_number(const pf_config_numbers *numbers);

// Shapes in rows of settings.def.
#define PF_WORDS(...) (&(const pf_schema_shape){.words = (const char *const[]){__VA_ARGS__, NULL}})
#define PF_OLD(key) (&(const pf_schema_shape){.old = key})
extern const pf_schema_shape pf_settings_grid, pf_settings_prior;

// The schema row of a setting for a struct of type `base` with a member `settings`.
#define PF_SETTING_ROW(base, field, key, type, least, most, ends, shape, help)                     \
    {                                                                                              \
        key, PF_KIND_##type, PF_ROW_##ends, least, most, offsetof(base, settings.field), shape,    \
            help                                                                                   \
    }

#endif
