package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// defaultFile is read if it exists and no other file is named.
const defaultFile = "/etc/criadapter/config.yaml"

// flagConfig names the flag of the configuration file.
const flagConfig = "config"

// Origins of a setting, except a line of a file.
const (
	originDefault     = "default"
	originFlag        = "flag"
	originEnvironment = "environment"
)

// Setting is one value of the configuration with its origin.
type Setting struct {
	// Name is the name of the flag and of the key in the file.
	Name string `json:"name"`
	// Value is in the form of the flag.
	Value string `json:"value"`
	// Origin is "default", "flag --NAME", "environment NAME", or a file and line, "/etc/criadapter/config.yaml:3".
	Origin string `json:"origin"`
}

// Named reports whether the value comes from a flag or from a variable of the environment.
func (s Setting) Named() bool {
	return strings.HasPrefix(s.Origin, originFlag+" ") || strings.HasPrefix(s.Origin, originEnvironment+" ")
}

// Load fills c, to which the flags are bound (AddFlags), and returns the origin of each value. The command line
// overrides the environment (environmentName), which overrides the file. The file is named by --config or the
// environment, or is defaultFile if it exists. An empty variable counts as unset, but an empty flag or text is a value.
// An error names all defects of the file with their lines.
func (c *Config) Load(flags *pflag.FlagSet) ([]Setting, error) {
	origins, given := map[string]string{}, map[string]string{}
	flags.Visit(func(f *pflag.Flag) {
		given[f.Name] = f.Value.String()
		origins[canonical(f.Name)] = originFlag + " --" + f.Name
	})
	path, required, err := filePath(flags)
	if err != nil {
		return nil, err
	}
	fromFile, err := c.loadFile(path, required)
	if err != nil {
		return nil, err
	}
	for name, origin := range fromFile {
		if _, found := origins[name]; !found {
			origins[name] = origin
		}
	}
	for _, name := range settingNames() {
		value := os.Getenv(environmentName(name))
		if _, wins := given[name]; value != "" && !wins && !strings.HasPrefix(origins[name], originFlag) {
			if err := flags.Set(name, value); err != nil {
				return nil, fmt.Errorf("%s in the environment: %w", environmentName(name), err)
			}
			origins[name] = originEnvironment + " " + environmentName(name)
		}
	}
	for name, value := range given { // the file has overwritten the flags' values
		if err := flags.Set(name, value); err != nil {
			return nil, err
		}
	}
	c.StreamingBindAddr = withPort(c.StreamingBindAddr)
	return settings(flags, origins), nil
}

// withPort adds port 0 to an IP address without a port, as cri-dockerd does.
func withPort(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return netip.AddrPortFrom(ip, 0).String()
	}
	return address
}

// filePath returns the configuration file, and whether it must exist.
func filePath(flags *pflag.FlagSet) (path string, required bool, err error) {
	path, err = flags.GetString(flagConfig)
	if err != nil || flags.Changed(flagConfig) {
		return path, path != "", err
	}
	if path := os.Getenv(environmentName(flagConfig)); path != "" {
		return path, true, nil
	}
	return defaultFile, false, nil
}

// loadFile sets the values of a file and returns their lines.
func (c *Config) loadFile(path string, required bool) (origins map[string]string, err error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && !required {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagConfig, err)
	}
	entries, err := parseFile(path, raw)
	if err != nil {
		return nil, err
	}
	origins = map[string]string{}
	var errs []error
	for _, entry := range entries {
		if string(entry.value) == "null" {
			errs = append(errs, fmt.Errorf("%s: %s: the key has no value; an empty text is \"\"", entry.place(path),
				entry.key))
			continue
		}
		// Each value is decoded alone, so that each error has its line.
		one, err := json.Marshal(map[string]json.RawMessage{entry.key: entry.value})
		if err == nil {
			err = json.Unmarshal(one, c)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", entry.place(path), entry.key, plainly(err)))
		}
		origins[entry.key] = entry.origin(path)
	}
	return origins, errors.Join(errs...)
}

// plainly describes a JSON error in the words of YAML.
func plainly(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	want := map[reflect.Kind]string{reflect.String: "a text (in quotes, if it looks like a number or true)",
		reflect.Bool: "true or false", reflect.Int: "a whole number"}[mismatch.Type.Kind()]
	return fmt.Errorf("the value is of the type %s, it must be %s", mismatch.Value, want)
}

// environmentName returns the variable of a flag: CRIADAPTER_LOG_LEVEL for log-level.
func environmentName(flag string) string {
	return "CRIADAPTER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settingNames returns the names of all settings in the order of Config.
func settingNames() []string {
	var names []string
	for field := range reflect.TypeFor[Config]().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}

// canonical returns the name of the setting that a flag sets.
func canonical(flag string) string {
	if flag == flagCriDockerdRoot {
		return "root-directory"
	}
	return flag
}

func settings(flags *pflag.FlagSet, origins map[string]string) []Setting {
	var all []Setting
	for _, name := range settingNames() {
		origin, found := origins[name]
		if !found {
			origin = originDefault
		}
		all = append(all, Setting{Name: name, Value: flags.Lookup(name).Value.String(), Origin: origin})
	}
	return slices.Clip(all)
}

// Differences returns the names of the settings in which two configurations differ, in the order of Config.
func Differences(a, b Config) []string {
	var names []string
	left, right := reflect.ValueOf(a), reflect.ValueOf(b)
	for i, name := range settingNames() {
		if !left.Field(i).Equal(right.Field(i)) {
			names = append(names, name)
		}
	}
	return names
}

// Flags returns all settings by name, in the form of the command line.
func (c Config) Flags() map[string]string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(flags)
	values := map[string]string{}
	for _, name := range settingNames() {
		values[name] = flags.Lookup(name).Value.String()
	}
	return values
}
