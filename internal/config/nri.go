package config

import (
	"errors"

	"github.com/spf13/pflag"
)

// Values of NRI.
const (
	// NRIEnabled lets plugins of the Node Resource Interface follow and adjust containers.
	NRIEnabled = "enabled"
	// NRIDisabled runs no plugin.
	NRIDisabled = "disabled"
)

func (c *Config) addNRIFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.NRI, "nri", c.NRI,
		"plugins of the Node Resource Interface, which follow pods and adjust containers: enabled or disabled")
	flags.StringVar(&c.NRISocket, "nri-socket", c.NRISocket, "unix socket that NRI plugins connect to")
	flags.StringVar(&c.NRIPluginDir, "nri-plugin-dir", c.NRIPluginDir,
		"directory of the NRI plugins to start, with names of the form INDEX-NAME")
	flags.StringVar(&c.NRIPluginConfigDir, "nri-plugin-config-dir", c.NRIPluginConfigDir,
		"directory of the configurations of these plugins, INDEX-NAME.conf or NAME.conf")
}

func checkNRI(c Config) error {
	if err := checkChoice("nri", c.NRI, NRIEnabled, NRIDisabled); err != nil {
		return err
	}
	return errors.Join(
		checkSocketPath("nri-socket", "unix://"+c.NRISocket),
		checkDir("nri-plugin-dir", c.NRIPluginDir),
		checkDir("nri-plugin-config-dir", c.NRIPluginConfigDir),
	)
}
