//lint:file-ignore SA1019 clients still read Endpoints

package advertise_test

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/planekit/planekit/apiserver/advertise"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

type object[T any] interface {
	comparable
	metav1.Object
	DeepCopy() T
}

// objects is a resource in memory.
type objects[T object[T]] struct {
	mu       sync.Mutex
	revision int
	all      map[string]T
	writes   int
}

func newObjects[T object[T]]() *objects[T] { return &objects[T]{all: map[string]T{}} }

func (o *objects[T]) Get(_ context.Context, namespace, name string) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	have, ok := o.all[namespace+"/"+name]
	if !ok {
		return have, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return have.DeepCopy(), nil
}

// put stores object, which is new or has the version of the one that is there.
func (o *objects[T]) put(object T, create bool) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var none T
	key := object.GetNamespace() + "/" + object.GetName()
	have, ok := o.all[key]
	switch {
	case create && ok:
		return none, apierrors.NewAlreadyExists(schema.GroupResource{}, object.GetName())
	case !create && !ok:
		return none, apierrors.NewNotFound(schema.GroupResource{}, object.GetName())
	case !create && have.GetResourceVersion() != object.GetResourceVersion():
		return none, apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("modified"))
	}
	o.revision++
	o.writes++
	object = object.DeepCopy()
	object.SetResourceVersion(strconv.Itoa(o.revision))
	if create {
		object.SetUID(types.UID("uid-" + strconv.Itoa(o.revision)))
	}
	o.all[key] = object
	return object.DeepCopy(), nil
}

func (o *objects[T]) Create(_ context.Context, object T) (T, error) { return o.put(object, true) }
func (o *objects[T]) Update(_ context.Context, object T) (T, error) { return o.put(object, false) }
func (o *objects[T]) UpdateStatus(_ context.Context, object T) (T, error) {
	return o.put(object, false)
}

func (o *objects[T]) Delete(_ context.Context, namespace, name string, _ metav1.DeleteOptions) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, namespace+"/"+name)
	o.writes++
	return nil
}

// one is the only object there is.
func (o *objects[T]) one() T {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out T
	for _, object := range o.all {
		out = object.DeepCopy()
	}
	if len(o.all) != 1 {
		panic(strconv.Itoa(len(o.all)) + " objects")
	}
	return out
}

// world holds the objects that servers share.
type world struct {
	services  *objects[*corev1.Service]
	endpoints *objects[*corev1.Endpoints]
	slices    *objects[*discoveryv1.EndpointSlice]
	ranges    *objects[*networkingv1.ServiceCIDR]
	store     storage.Store
}

func newWorld() *world {
	return &world{
		services: newObjects[*corev1.Service](), endpoints: newObjects[*corev1.Endpoints](),
		slices: newObjects[*discoveryv1.EndpointSlice](), ranges: newObjects[*networkingv1.ServiceCIDR](),
		store: memstore.New(),
	}
}

func (w *world) writes() int {
	return w.services.writes + w.endpoints.writes + w.slices.writes + w.ranges.writes
}

// config returns the configuration of a server at address.
func (w *world) config(address string) advertise.Config {
	return advertise.Config{
		Services: w.services, Endpoints: w.endpoints, EndpointSlices: w.slices, ServiceCIDRs: w.ranges,
		Leases: advertise.StoreLeases(w.store), Address: netip.MustParseAddrPort(address),
		Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
	}
}

// mortal are leases that fail from when their server is dead.
type mortal struct {
	advertise.Leases
	mu   sync.Mutex
	dead bool
}

var errDead = errors.New("the server is dead")

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errDead
	}
	return nil
}

func (m *mortal) Renew(ctx context.Context, address netip.AddrPort, ttl time.Duration) error {
	if err := m.failed(); err != nil {
		return err
	}
	return m.Leases.Renew(ctx, address, ttl)
}

func (m *mortal) Remove(ctx context.Context, address netip.AddrPort) error {
	if err := m.failed(); err != nil {
		return err
	}
	return m.Leases.Remove(ctx, address)
}
