package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// MigrateRoots returns the directories that may be cri-dockerd's root. The last one is RootDirectory, because
// cri-dockerd may have used that directory, too.
func (c Config) MigrateRoots() []string {
	return append(splitList(c.MigrateRootDirectories), filepath.Clean(c.RootDirectory))
}

// MigrateCaches returns MigrateCNICacheDirs as a list.
func (c Config) MigrateCaches() []string { return splitList(c.MigrateCNICacheDirs) }

// MigrateHistory returns MigrateLogHistory in bytes, 0 if it is invalid.
func (c Config) MigrateHistory() int64 {
	quantity, _ := resource.ParseQuantity(c.MigrateLogHistory) // 0 with an error
	return quantity.Value()
}

func splitList(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(item string) bool { return item == "" })
}

func checkMigrate(c Config) error {
	errs := []error{checkChoice("migrate", c.Migrate, MigrateCRIDockerd, MigrateNone)}
	for _, dir := range splitList(c.MigrateRootDirectories) {
		errs = append(errs, checkDir("migrate-root-directories", dir))
	}
	for _, dir := range c.MigrateCaches() {
		errs = append(errs, checkDir("migrate-cni-cache-dirs", dir))
	}
	quantity, err := resource.ParseQuantity(c.MigrateLogHistory)
	if err != nil || quantity.Sign() < 0 {
		errs = append(errs,
			fmt.Errorf("--migrate-log-history: %q is not a size in bytes such as 10M", c.MigrateLogHistory))
	}
	return errors.Join(errs...)
}

// addMigrateFlags registers the flags of a take-over.
func (c *Config) addMigrateFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Migrate, "migrate", c.Migrate,
		"take over the running pods of this runtime at the start: cri-dockerd (and dockershim) or none")
	flags.StringVar(&c.MigrateRootDirectories, "migrate-root-directories", c.MigrateRootDirectories,
		"comma-separated root directories of cri-dockerd and dockershim, for their checkpoints")
	flags.StringVar(&c.MigrateCNICacheDirs, "migrate-cni-cache-dirs", c.MigrateCNICacheDirs,
		"comma-separated directories with the CNI results of cri-dockerd (its --cni-cache-dir) and dockershim")
	flags.StringVar(&c.MigrateLogHistory, "migrate-log-history", c.MigrateLogHistory,
		"bytes of a migrated container's old log that are converted to the CRI format, as a quantity; log "+
			"collectors read them a second time")
}
