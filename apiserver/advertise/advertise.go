//lint:file-ignore SA1019 clients still read Endpoints

package advertise

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// name is the name of all the objects.
const name = "kubernetes"

const (
	interval = 10 * time.Second
	leaseTTL = 15 * time.Second
	// again is when what failed is tried again.
	again = time.Second
	// farewell is how long a server that is stopped takes to remove itself, at most.
	farewell = 5 * time.Second
)

// Objects reads and writes the objects of one resource, with the errors of
// k8s.io/apimachinery/pkg/api/errors.
type Objects[T any] interface {
	Get(ctx context.Context, namespace, name string) (T, error)
	Create(ctx context.Context, object T) (T, error)
	Update(ctx context.Context, object T) (T, error)
	UpdateStatus(ctx context.Context, object T) (T, error)
	Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
}

// Config joins an Advertiser to its surroundings. All fields but Address and Log
// must be set.
type Config struct {
	Services       Objects[*corev1.Service]
	Endpoints      Objects[*corev1.Endpoints]
	EndpointSlices Objects[*discoveryv1.EndpointSlice]
	ServiceCIDRs   Objects[*networkingv1.ServiceCIDR]
	Leases         Leases
	// Address is where the cluster reaches this server. Without one, there are no
	// endpoints of it.
	Address netip.AddrPort
	// Ranges holds the ranges of cluster IPs: one, or one of each IP family. The
	// Service gets the first address of the first range.
	Ranges []netip.Prefix
	Log    logr.Logger
}

// Advertiser keeps the objects by which a cluster finds its API servers.
type Advertiser struct {
	config Config
	ready  chan struct{}
	// Owned by Run: what has been said once.
	mismatch, elsewhere bool
}

// New checks config. It starts nothing.
func New(config Config) (*Advertiser, error) {
	for what, missing := range map[string]bool{
		"Services": config.Services == nil, "Endpoints": config.Endpoints == nil, "EndpointSlices": config.EndpointSlices == nil,
		"ServiceCIDRs": config.ServiceCIDRs == nil, "Leases": config.Leases == nil,
	} {
		if missing {
			return nil, fmt.Errorf("advertise: Config: no %s", what)
		}
	}
	if n := len(config.Ranges); n == 0 || n > 2 || n == 2 && config.Ranges[0].Addr().Is4() == config.Ranges[1].Addr().Is4() {
		return nil, errors.New("advertise: Config: Ranges must be one, or one of each family")
	}
	if a := config.Address; a.IsValid() && (a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsLoopback() || a.Addr().IsLinkLocalUnicast()) {
		return nil, fmt.Errorf("advertise: Config: Address %s cannot be reached from other hosts", a)
	}
	config.Address = netip.AddrPortFrom(config.Address.Addr().Unmap(), config.Address.Port())
	return &Advertiser{config: config, ready: make(chan struct{})}, nil
}

// Ready is closed when all objects have been there once.
func (a *Advertiser) Ready() <-chan struct{} { return a.ready }

// Run keeps the objects until ctx is done, removes this server from the endpoints
// and returns nil. The server must serve until then.
func (a *Advertiser) Run(ctx context.Context) error {
	ready, conflicts := a.ready, 0
	for {
		wait := interval
		switch err := a.sync(ctx); {
		case ctx.Err() != nil:
		case apierrors.IsConflict(err) && conflicts == 0:
			// Another writer was faster, as controllers are at a start.
			conflicts++
			wait = again
		case err != nil:
			a.config.Log.Error(err, "cannot advertise the API server")
			wait = again
		default:
			conflicts = 0
			if ready != nil {
				close(ready)
				ready = nil
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
			timer.Stop()
		}
		break
	}
	if !a.config.Address.IsValid() {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := a.leave(last); err != nil {
		// The lease ends by itself; another server will see.
		a.config.Log.Error(err, "cannot remove the API server from its endpoints")
	}
	return nil
}

// sync makes all objects what they should be. What fails keeps nothing else from
// being done.
func (a *Advertiser) sync(ctx context.Context) error {
	failed := errors.Join(a.syncRange(ctx), a.syncService(ctx))
	if !a.config.Address.IsValid() {
		return failed
	}
	if err := a.config.Leases.Renew(ctx, a.config.Address, leaseTTL); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, a.syncEndpoints(ctx, false))
}

func (a *Advertiser) leave(ctx context.Context) error {
	if err := a.config.Leases.Remove(ctx, a.config.Address); err != nil {
		return err
	}
	return a.syncEndpoints(ctx, true)
}
