package config

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that is written like "1m30s" in flags and in YAML.
type Duration time.Duration

// String implements pflag.Value.
func (d *Duration) String() string { return time.Duration(*d).String() }

// Set implements pflag.Value.
func (d *Duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 2m or 90s", text)
	}
	*d = Duration(parsed)
	return nil
}

// Type implements pflag.Value.
func (*Duration) Type() string { return "duration" }

// UnmarshalJSON reads the text form.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("%s is not a duration in quotes such as \"2m\"", raw)
	}
	return d.Set(text)
}

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }
