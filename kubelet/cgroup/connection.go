package cgroup

import (
	"context"
	"sync"

	systemd "github.com/coreos/go-systemd/v22/dbus"
)

// units is a part of systemd's D-Bus interface. *systemd.Conn implements it.
type units interface {
	StartTransientUnitContext(ctx context.Context, name, mode string, properties []systemd.Property,
		done chan<- string) (int, error)
	SetUnitPropertiesContext(ctx context.Context, name string, runtime bool, properties ...systemd.Property) error
	StopUnitContext(ctx context.Context, name, mode string, done chan<- string) (int, error)
	Connected() bool
	Close()
}

// connection is the connection to systemd. It is opened on first use and after a failure, and lasts until close. It is
// safe for concurrent use.
type connection struct {
	// dial opens a connection that ends with the context.
	dial func(context.Context) (units, error)

	mu     sync.Mutex
	conn   units // nil for none
	hangUp context.CancelFunc
}

// get returns the connection. The context bounds only the dial.
func (c *connection) get(ctx context.Context) (units, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.conn.Connected() {
		return c.conn, nil
	}
	c.drop()
	life, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	dialed := context.AfterFunc(ctx, hangUp)
	conn, err := c.dial(life)
	if !dialed() && err == nil {
		conn.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		hangUp()
		return nil, err
	}
	c.conn, c.hangUp = conn, hangUp
	return conn, nil
}

// close ends the connection. It may be repeated.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// drop closes the connection. The caller holds mu.
func (c *connection) drop() {
	if c.conn != nil {
		c.conn.Close()
		c.hangUp()
		c.conn = nil
	}
}
