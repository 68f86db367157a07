package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cmd/criadapter/command"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/migrate"
)

// newMigration makes the migration of cri-dockerd's pods.
func newMigration(cfg config.Config, engine docker.Engine, store *checkpoint.Store) *migrate.Node {
	return migrate.New(migrate.Options{
		Engine:          engine,
		Store:           store,
		RootDirectories: cfg.MigrateRoots(),
		OwnRoot:         filepath.Clean(cfg.RootDirectory),
		CNICacheDirs:    cfg.MigrateCaches(),
		CNICacheDir:     filepath.Clean(cfg.CacheDir()),
		LogHistory:      cfg.MigrateHistory(),
		KeepLinks:       cfg.ContainerLogMode == config.LogModeSymlink,
		DockerEndpoint:  cfg.DockerEndpoint,
	})
}

// migration runs the command migrate.
func migration(ctx context.Context, to io.Writer, request command.Migration) (err error) {
	if err := log.SetLevel("warn"); err != nil { // log lines would mix with the plan
		return err
	}
	cfg := request.Config
	// A plan needs the lock as well: a running criadapter has its own view of the records.
	lock, err := lockRoot(cfg.RootDirectory, "stop it first (systemctl stop criadapter.socket criadapter.service, or "+
		"cri-docker.socket cri-docker.service with the package criadapter-cri-docker)")
	if err != nil {
		return err
	}
	defer lock.Close()
	store, err := checkpoint.Open(cfg.RecordsDir())
	if err != nil {
		return err
	}
	engine, err := docker.Dial(docker.Options{
		Host:           cfg.DockerEndpoint,
		RequestTimeout: time.Duration(cfg.RuntimeRequestTimeout),
		LogDriver:      translate.LogDriver(cfg.ContainerLogMode == config.LogModeSymlink),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if _, err := engine.Features(ctx); err != nil {
		return err
	}
	node := newMigration(cfg, engine, store)
	if request.Back {
		return handBack(ctx, to, node, request.Apply)
	}
	plan, err := node.Plan(ctx)
	if err == nil {
		err = plan.Print(to)
	}
	if err != nil || !request.Apply {
		return err
	}
	return node.Apply(ctx, plan)
}

func handBack(ctx context.Context, to io.Writer, node *migrate.Node, apply bool) error {
	plan, err := node.PlanReturn(ctx)
	if err == nil {
		err = plan.Print(to)
	}
	if err != nil || !apply {
		return err
	}
	return node.ApplyReturn(ctx, plan)
}
