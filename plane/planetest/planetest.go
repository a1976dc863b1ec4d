// Package planetest starts a whole control plane inside a test: API server,
// controllers, garbage collection, a scheduler, and nodes whose containers are
// simulated.
//
//	func TestDeployment(t *testing.T) {
//		p := planetest.Start(t, planetest.Nodes(2))
//		web, err := typed.Deployments(p.Client()).Create(t.Context(), web)
//		...
//	}
//
// It is the real thing over a store in memory, on a free port of the loopback address
// with certificates of its own, ready within some tens of milliseconds and gone with
// the test. Any number may run side by side. Nothing waits for anything but what it
// needs: the objects that controllers make exist soon, not at once, so a test follows
// them with a cache or asks until they are there.
//
// [Plane.Client] may do everything, within the process. [Plane.As] acts as any user
// and is subject to RBAC. Programs that speak over the wire use [Plane.KubeconfigFile]
// or [Plane.REST]. Start fails the test where the control plane cannot start or stop;
// there is no error to handle.
package planetest

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
)

// Plane is a running control plane.
type Plane struct {
	*plane.Plane
	tb testing.TB
}

// An Option changes the configuration of the control plane before it is made.
type Option func(testing.TB, *plane.Config)

// Nodes adds nodes whose containers are simulated: node-1, node-2 and so on.
func Nodes(count int) Option {
	return func(tb testing.TB, c *plane.Config) {
		tb.Helper()
		// Not TempDir: paths of sockets must be short.
		dir, err := os.MkdirTemp("", "planetest-")
		if err != nil {
			tb.Fatalf("planetest: %v", err)
		}
		tb.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				tb.Errorf("planetest: %v", err)
			}
		})
		c.Parts = append(c.Parts, nodes.InMemory(dir, count))
		if c.MayDialNode == nil {
			// The nodes listen on the loopback address, which the API server refuses otherwise.
			c.MayDialNode = func(netip.Addr) error { return nil }
		}
	}
}

// With changes anything else.
func With(change func(*plane.Config)) Option {
	return func(_ testing.TB, c *plane.Config) { change(c) }
}

// Start starts a control plane, waits until it is ready, and stops it when the test
// ends.
func Start(tb testing.TB, options ...Option) *Plane {
	tb.Helper()
	var config plane.Config
	// Grace periods of pods end with the test.
	now := make(chan struct{})
	close(now)
	config.StopNow = now
	for _, option := range options {
		option(tb, &config)
	}
	made, err := plane.New(config)
	if err != nil {
		tb.Fatalf("planetest: %v", err)
	}
	// The test's own context ends before its cleanup, which may need the server.
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("planetest: %v", err)
		}
	})
	select {
	case <-made.Ready():
	case err := <-ended:
		ended <- nil
		tb.Fatalf("planetest: %v", err)
	}
	return &Plane{Plane: made, tb: tb}
}

// As returns a client within the process that acts as the named user.
func (p *Plane) As(name string, groups ...string) *client.Client {
	p.tb.Helper()
	c, err := p.ClientFor(&user.Info{Name: name, Groups: append(groups, user.Authenticated)}, "planetest")
	if err != nil {
		p.tb.Fatalf("planetest: %v", err)
	}
	return c
}

// REST holds what a client over the wire needs, with the fields of client-go's rest.Config and its
// TLSClientConfig.
type REST struct {
	Host                      string
	CAData, CertData, KeyData []byte
}

// REST returns the way over the wire for a user in groups, whose certificate it issues.
func (p *Plane) REST(name string, groups ...string) REST {
	p.tb.Helper()
	pair, err := p.Credentials.Authority.Client(name, name, groups...)
	if err != nil {
		p.tb.Fatalf("planetest: %v", err)
	}
	return REST{p.URL(), p.Credentials.Authority.CertificatePEM, pair.CertificatePEM, pair.KeyPEM}
}

// KubeconfigFile writes the administrator's kubeconfig to a file that goes with the
// test, and returns its path.
func (p *Plane) KubeconfigFile() string {
	p.tb.Helper()
	path := filepath.Join(p.tb.TempDir(), "kubeconfig")
	if err := p.Kubeconfig().Write(path); err != nil {
		p.tb.Fatalf("planetest: %v", err)
	}
	return path
}
