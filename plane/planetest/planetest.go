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
// It is the real control plane over a store in memory. It listens on a free port of the
// loopback address with certificates of its own, starts in some tens of milliseconds, and
// stops with the test. Any number may run at once. Controllers work asynchronously: a test
// waits for the objects that they make with [Eventually], or with synctest.Wait (below).
//
// [plane.Plane.Client] may do everything, within the process. [Plane.As] acts as any user
// and is subject to RBAC. Programs that speak over the wire use [Plane.KubeconfigFile]
// or [Plane.REST]. Start fails the test if the control plane cannot start or stop;
// there is no error to handle.
//
// # Time and names
//
// With [WithoutNetwork] all connections stay in memory, and a whole control plane with its
// nodes runs in a bubble of testing/synctest. Its clock is then that of the bubble:
// time.Sleep(time.Hour) takes milliseconds, and synctest.Wait returns when every
// controller, kubelet and client has nothing left to do. No polling is needed:
//
//	synctest.Test(t, func(t *testing.T) {
//		p := planetest.Start(t, planetest.WithoutNetwork(), planetest.Names(1), planetest.Nodes(2))
//		...                                  // create a Deployment
//		synctest.Wait()      // its pods run now
//		time.Sleep(time.Hour) // still
//	})
//
// [Names] makes UIDs and generated names the same in each run.
//
// # From envtest
//
// A test that uses sigs.k8s.io/controller-runtime/pkg/envtest starts etcd and kube-apiserver, and
// nothing that acts on objects: no garbage collection, no namespaces that end, no pods that run.
// Here these work, and no binaries are needed. Replace the environment:
//
//	environment := &envtest.Environment{}        | p := planetest.Start(t)
//	config, err := environment.Start()           | r := p.REST("admin", "system:masters")
//	defer environment.Stop()                     | config := &rest.Config{Host: r.Host, TLSClientConfig: rest.TLSClientConfig{
//	                                             |     CAData: r.CAData, CertData: r.CertData, KeyData: r.KeyData}}
//
// The manager, its client and the reconcilers stay as they are. The same controller and its test
// are in examples/configmaps with this library, and in compat/configmaps with client-go and with
// controller-runtime. [CustomResources] installs CustomResourceDefinitions, as CRDInstallOptions do.
//
// A suite that shall stay as it is can use the program examples/envtest in place of both binaries.
package planetest

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds/apiextensions"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/stack"
)

// Plane is a running control plane.
type Plane struct {
	*plane.Plane
	tb      testing.TB
	network plane.Network // nil for the machine's
}

// An Option changes the configuration of the control plane before it is made.
type Option func(testing.TB, *plane.Config)

// Nodes adds nodes whose containers are simulated: node-1, node-2 and so on. Their files are in
// the test's TempDir. Each change is called with the configuration of each node, to which it can add
// labels, taints and capacity:
//
//	planetest.Nodes(3, func(c *nodes.Config) {
//		c.Kubelet = func(k *kubelet.Config) { k.Labels = map[string]string{"disk": "ssd"} }
//	})
func Nodes(count int, change ...func(*nodes.Config)) Option {
	return func(tb testing.TB, c *plane.Config) {
		tb.Helper()
		c.Parts = append(c.Parts, nodes.InMemory(tb.TempDir(), count, change...))
		if c.MayDialNode == nil {
			// The nodes listen on the loopback address, which the API server refuses otherwise.
			c.MayDialNode = func(netip.Addr) error { return nil }
		}
	}
}

// WithoutNetwork keeps all connections within the process: no port is opened. Clients use
// [plane.Plane.Client], [Plane.As], or [REST.Dial]. A control plane without the network may run in
// a bubble of testing/synctest.
func WithoutNetwork() Option { return With(func(c *plane.Config) { c.Network = newNetwork() }) }

// With changes the configuration of the control plane in any other way, for example to serve
// resources of the test's own, or to run a controller or an admission plugin of its own:
//
//	planetest.With(func(c *plane.Config) {
//		c.Resources = append(c.Resources, lamps)
//		c.Admission.More = append(c.Admission.More, plugin)
//	})
func With(change func(*plane.Config)) Option {
	return func(_ testing.TB, c *plane.Config) { change(c) }
}

// CustomResources makes the control plane serve CustomResourceDefinitions, and installs those that sources
// name before Start returns: a file, a directory, or a definition itself.
func CustomResources(sources ...any) Option {
	return func(tb testing.TB, c *plane.Config) {
		tb.Helper()
		var all []*apiextensions.CustomResourceDefinition
		for _, source := range sources {
			switch source := source.(type) {
			case string:
				more, err := customresources.Load(source)
				if err != nil {
					tb.Fatalf("planetest: %v", err)
				}
				all = append(all, more...)
			case *apiextensions.CustomResourceDefinition:
				all = append(all, source)
			default:
				tb.Fatalf("planetest: %T is no source of definitions", source)
			}
		}
		customresources.Enable(c)
		c.Parts = append(c.Parts, func(ctx context.Context, p *plane.Plane, _ *stack.Stack) error {
			return customresources.Install(ctx, p.Client(), all...)
		})
	}
}

// Start starts a control plane, waits until it is ready, and stops it when the test ends. Its log is
// part of the test's output, which go test shows with -v or if the test fails.
func Start(tb testing.TB, options ...Option) *Plane {
	tb.Helper()
	var config plane.Config
	// Grace periods of pods end with the test.
	now := make(chan struct{})
	close(now)
	config.StopNow = now
	config.Log = logr.FromSlogHandler(slog.NewTextHandler(tb.Output(), nil))
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
	return &Plane{Plane: made, tb: tb, network: config.Network}
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
	// Dial connects to Host. It is nil with the machine's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// REST returns the way over the wire for a user in groups, whose certificate it issues.
func (p *Plane) REST(name string, groups ...string) REST {
	p.tb.Helper()
	pair, err := p.Credentials.Authority.Client(name, name, groups...)
	if err != nil {
		p.tb.Fatalf("planetest: %v", err)
	}
	r := REST{Host: p.URL(), CAData: p.Credentials.Authority.CertificatePEM, CertData: pair.CertificatePEM, KeyData: pair.KeyPEM}
	if p.network != nil {
		r.Dial = func(ctx context.Context, _, address string) (net.Conn, error) { return p.network.Dial(ctx, address) }
	}
	return r
}

// KubeconfigFile writes the administrator's kubeconfig to a file in the test's TempDir and returns
// its path.
func (p *Plane) KubeconfigFile() string {
	p.tb.Helper()
	path := filepath.Join(p.tb.TempDir(), "kubeconfig")
	if err := p.Kubeconfig().Write(path); err != nil {
		p.tb.Fatalf("planetest: %v", err)
	}
	return path
}
