#compdef sounder
typeset -g _sounder_words='@words@'
typeset -g _sounder_commands='@commands@'
typeset -g _sounder_topics='@topics@'
_sounder() {
    local line option=${words[CURRENT-1]} command=${words[2]}
    local -a parts names values
    if (( CURRENT == 2 )); then
        compadd -- ${=_sounder_commands}
        return
    fi
    if [[ $command == help ]]; then
        if [[ $option == completion ]]; then compadd -- bash zsh fish; else compadd -- ${=_sounder_topics}; fi
        return
    fi
    if [[ $PREFIX == --*=* ]]; then
        option=${PREFIX%%=*}
        compset -P '*='
    fi
    names=(--help)
    for line in ${(f)_sounder_words}; do
        parts=(${=line})
        [[ ,$parts[1], == *,$command,* ]] || continue
        names+=($parts[2])
        [[ $parts[2] != $option ]] || values=(${parts[3,-1]})
    done
    if [[ $PREFIX == -* ]]; then compadd -- $names; elif (( $#values )); then compadd -- $values; else _files; fi
}
if [[ ${funcstack[1]} == _sounder ]]; then _sounder "$@"; else compdef _sounder sounder; fi
