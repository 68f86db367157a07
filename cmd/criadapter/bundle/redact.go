package bundle

import (
	"encoding/json"
	"regexp"
)

// hidden replaces a secret.
const hidden = "REDACTED"

// secrets are patterns of text that looks like a secret. redact replaces a match and keeps its groups. The slice is
// read-only.
var secrets = []*regexp.Regexp{
	// A private key. Its pattern comes first: a pattern for a name such as private_key would hide only the text up to
	// the first blank of the BEGIN line.
	regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
	// https://user:password@host
	regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]+(@)`),
	// Authorization: Bearer x, "password": "x", token=x, --registry-secret x; the value may be quoted, also within
	// JSON.
	regexp.MustCompile(`(?i)((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}`),
	regexp.MustCompile(`(?i)([\w.-]*(?:password|passwd|passphrase|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key|authorization)[\w.-]*\\?["']?\s*[:=]\s*\\?["']?)[^\s"'\\,;}&]+`),
	regexp.MustCompile(`(?i)(--?[\w-]*(?:password|secret|token|key)[\w-]*[ =])[^\s-][^\s]*`),
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
		return []byte(hidden + ": it is no JSON\n")
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
