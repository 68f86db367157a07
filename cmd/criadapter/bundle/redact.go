package bundle

import (
	"encoding/json"
	"regexp"
)

// hidden replaces a secret.
const hidden = "REDACTED"

// secretName matches the name of a secret up to its value: password=, "token": or X-Api-Key: . The name may be within
// quotes, also within JSON in JSON.
const secretName = `[\w.-]*(?:password|passwd|passphrase|secret|token|credential|api[_-]?key|access[_-]?key|` +
	`private[_-]?key|authorization)[\w.-]*\\?["']?\s*[:=]\s*`

// secretFlag matches a flag of a command with a secret up to its value: --registry-secret= or --token .
const secretFlag = `--?[\w-]*(?:password|secret|token|key)[\w-]*[ =]`

// quoted matches a secret's value between quotes, which may have several lines. If the closing quote is missing, the
// value ends with the text.
func quoted(opening, value, closing string) *regexp.Regexp {
	return regexp.MustCompile(`(?is)((?:` + secretName + `|` + secretFlag + `)` + opening + `)` + value +
		`(` + closing + `|$)`)
}

// secrets are patterns of text that looks like a secret. redact replaces a match and keeps its groups. The slice is
// read-only.
var secrets = []*regexp.Regexp{
	// A private key. It comes before the names of secrets, since their values end at a blank of the BEGIN line.
	regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
	// https://user:password@host. The password may have an @, too.
	regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"']+(@)`),
	regexp.MustCompile(`(?i)((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`),
	// A value within quotes, with blanks and escaped quotes. Quotes of JSON in JSON have a backslash each.
	quoted(`\\"`, `(?:[^"\\]|\\\\(?:\\.|[^\\]))*`, `\\"|"`),
	quoted(`"`, `(?:[^"\\]|\\.)*`, `"`),
	quoted(`'`, `[^']*`, `'`),
	// A value without quotes. A word that begins with a hyphen is the next flag.
	regexp.MustCompile(`(?i)(` + secretName + `)(?:[^\s"'\\]|\\[^\s"'])+`),
	regexp.MustCompile(`(?i)(` + secretFlag + `)[^\s"'-][^\s"']*`),
	// A signed token (JWT).
	regexp.MustCompile(`()eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
}

// keyLine is the first or the last line of a private key.
var keyLine = regexp.MustCompile(`-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----`)

// hideCutKey hides the start of a text up to the end of a private key whose BEGIN line is missing. The text is the end
// of a longer one, which may have been cut within a key.
func hideCutKey(text []byte) []byte {
	first := keyLine.FindSubmatchIndex(text)
	if first == nil || string(text[first[2]:first[3]]) == "BEGIN" {
		return text
	}
	return append([]byte(hidden), text[first[1]:]...)
}

// redact hides text that looks like a secret.
func redact(text []byte) []byte {
	text = hideCutKey(text)
	for _, secret := range secrets {
		text = secret.ReplaceAll(text, []byte("${1}"+hidden+"${2}"))
	}
	return text
}

// secretKey matches keys of JSON with secret values.
var secretKey = regexp.MustCompile(`(?i)pass(word|wd|phrase)|secret|token|credential|auth|(api|access|private).?key|cert|\.?data$|^env`)

// redactJSON hides the values of secret keys, and other text that looks like a secret. A text that is not JSON is
// hidden as a whole.
func redactJSON(text []byte) []byte {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return []byte(hidden + ": it is not JSON\n")
	}
	encoded, err := json.MarshalIndent(hide(value), "", "  ")
	if err != nil {
		return []byte(hidden + "\n")
	}
	return redact(append(encoded, '\n'))
}

func hide(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if secretKey.MatchString(key) {
				value[key] = hidden
			} else {
				value[key] = hide(inner)
			}
		}
	case []any:
		for i, inner := range value {
			value[i] = hide(inner)
		}
	}
	return value
}
