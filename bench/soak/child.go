package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
)

// child is the cluster: a process that is killed and restarted on the same data.
type child struct {
	program, dir string
	arguments    []string

	mu      sync.Mutex // guards what follows
	process *peer.Process
	api     *client.Client
	lives   int
	began   time.Time
	died    []time.Duration // since began
}

func newChild(o options, port string) *child {
	return &child{
		program: o.program, dir: o.out,
		arguments: append([]string{
			"--data-dir", filepath.Join(o.out, "data"), "--kubeconfig", filepath.Join(o.out, "kubeconfig"),
			"--listen", "127.0.0.1:" + port, "--runtime", o.runtime,
		}, o.flags...),
	}
}

// start starts the cluster and waits until it is ready.
func (c *child) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		c.began = time.Now()
	}
	c.lives++
	p, err := peer.Launch(filepath.Join(c.dir, fmt.Sprintf("cluster-%d.log", c.lives)), c.program, c.arguments...)
	if err != nil {
		return err
	}
	c.process = p
	if _, err := p.AwaitLine(ctx, "ready in "); err != nil {
		return fmt.Errorf("start %d of the cluster: %w", c.lives, err)
	}
	if c.api == nil {
		c.api, err = c.connect()
	}
	return err
}

// connect returns a client with connections of its own.
func (c *child) connect() (*client.Client, error) {
	return kubeconfig.Connect(filepath.Join(c.dir, "kubeconfig"))
}

// kill ends the process with SIGKILL.
func (c *child) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.died = append(c.died, time.Since(c.began))
	return c.process.End()
}

// stop ends the process normally, if it runs.
func (c *child) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return nil
	}
	if c.api != nil {
		c.api.Close()
	}
	return c.process.Stop()
}

// life returns the number of starts of the cluster.
func (c *child) life() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lives
}

func (c *child) deaths() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.died
}

// prepare empties the data directory of an earlier run.
func (c *child) prepare() error {
	return errors.Join(os.RemoveAll(filepath.Join(c.dir, "data")), os.MkdirAll(c.dir, 0o755))
}
