//lint:file-ignore SA1019 leases have the form of Endpoints

package advertise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/planekit/planekit/storage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Leases stores which servers are running. It is safe for concurrent use.
type Leases interface {
	// Renew keeps the lease of address for a time to live from now on.
	Renew(ctx context.Context, address netip.AddrPort, ttl time.Duration) error
	// Remove deletes the lease of address. It returns nil if there is none.
	Remove(ctx context.Context, address netip.AddrPort) error
	// List returns the addresses of all leases, in any order. The port is zero if a lease does not
	// contain it, as those of kube-apiserver do not.
	List(ctx context.Context) ([]netip.AddrPort, error)
}

// leasePrefix is where kube-apiserver has its leases, below the store's prefix.
const leasePrefix = "/masterleases/"

// StoreLeases returns leases that are records of store, with a time to live, at
// kube-apiserver's place and in its form.
func StoreLeases(store storage.Store) Leases { return storeLeases{store} }

type storeLeases struct{ store storage.Store }

func leaseKey(address netip.AddrPort) storage.Key {
	return storage.Key(leasePrefix + address.String())
}

func (l storeLeases) Renew(ctx context.Context, address netip.AddrPort, ttl time.Duration) error {
	value, err := json.Marshal(&corev1.Endpoints{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: address.Addr().String()}},
			Ports:     []corev1.EndpointPort{{Port: int32(address.Port())}},
		}},
	})
	if err != nil {
		return err
	}
	for {
		change := storage.Change{Op: storage.Create, Key: leaseKey(address), Value: value, TTL: ttl}
		switch have, err := l.store.Get(ctx, change.Key, 0); {
		case err == nil:
			change.Op, change.Previous = storage.Update, have.Revision
		case !errors.Is(err, storage.ErrNotFound):
			return fmt.Errorf("renew lease of %s: %w", address, err)
		}
		_, err := l.store.Commit(ctx, change)
		// The lease may have ended in between, or begun.
		if err == nil || !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
}

func (l storeLeases) Remove(ctx context.Context, address netip.AddrPort) error {
	have, err := l.store.Get(ctx, leaseKey(address), 0)
	if err == nil {
		_, err = l.store.Commit(ctx, storage.Change{Op: storage.Delete, Key: have.Key, Previous: have.Revision})
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("remove lease of %s: %w", address, err)
	}
	return nil
}

func (l storeLeases) List(ctx context.Context) ([]netip.AddrPort, error) {
	page, err := l.store.List(ctx, leasePrefix, storage.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	var out []netip.AddrPort
	for _, record := range page.Records {
		address, err := decodeLease(record.Value)
		if err != nil {
			return nil, fmt.Errorf("lease %s: %w", record.Key, err)
		}
		if address.IsValid() {
			out = append(out, address)
		}
	}
	return out, nil
}

// protobufPrefix begins an object that kube-apiserver stores.
var protobufPrefix = []byte("k8s\x00")

// decodeLease returns the address of a lease, which is invalid if it has none.
func decodeLease(value []byte) (netip.AddrPort, error) {
	var lease corev1.Endpoints
	if raw, ok := bytes.CutPrefix(value, protobufPrefix); ok {
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(raw); err != nil {
			return netip.AddrPort{}, err
		}
		if err := lease.Unmarshal(envelope.Raw); err != nil {
			return netip.AddrPort{}, err
		}
	} else if err := json.Unmarshal(value, &lease); err != nil {
		return netip.AddrPort{}, err
	}
	if len(lease.Subsets) == 0 || len(lease.Subsets[0].Addresses) == 0 {
		return netip.AddrPort{}, nil
	}
	subset := &lease.Subsets[0]
	ip, err := netip.ParseAddr(subset.Addresses[0].IP)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port := int32(0)
	if len(subset.Ports) > 0 {
		port = subset.Ports[0].Port
	}
	if port < 0 || port > math.MaxUint16 {
		return netip.AddrPort{}, fmt.Errorf("port %d", port)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), nil
}
