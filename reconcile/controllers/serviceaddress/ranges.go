package serviceaddress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// rangeFinalizer keeps a ServiceCIDR while addresses of it alone are in use.
	rangeFinalizer = "networking.k8s.io/service-cidr-finalizer"
	// deletionGrace is how long a deleted ServiceCIDR stays at least. Meanwhile all API servers learn
	// that they must not take addresses of it.
	deletionGrace = 10 * time.Second
)

// RangesConfig configures Ranges. All fields but the last three are required.
type RangesConfig struct {
	ServiceCIDRs localcache.Cache[*networkingv1.ServiceCIDR]
	IPAddresses  localcache.Cache[*networkingv1.IPAddress]
	// ListAddresses returns all IPAddresses from the API, not from a cache.
	ListAddresses func(ctx context.Context) ([]*networkingv1.IPAddress, error)
	Writer        controllers.Updater[*networkingv1.ServiceCIDR]
	StatusWriter  controllers.StatusUpdater[*networkingv1.ServiceCIDR]
	// Workers is the number of ServiceCIDRs processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Ranges sets the condition Ready of ServiceCIDRs, and keeps a finalizer on them. It removes the
// finalizer from a ServiceCIDR that is being deleted once no address is in use that is of no other
// ServiceCIDR.
type Ranges struct {
	*reconcile.Controller[string]
	config RangesConfig
}

// NewRanges returns a controller, or an error if config lacks a required field. It starts nothing.
func NewRanges(config RangesConfig) (*Ranges, error) {
	err := loop.Required("serviceaddress: RangesConfig", "ServiceCIDRs", config.ServiceCIDRs, "IPAddresses", config.IPAddresses,
		"ListAddresses", config.ListAddresses, "Writer", config.Writer, "StatusWriter", config.StatusWriter)
	if err != nil {
		return nil, err
	}
	c := &Ranges{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "servicecidr", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.ServiceCIDRs, func(_, new *networkingv1.ServiceCIDR) {
		if new != nil {
			c.Enqueue(new.Name)
		}
		c.enqueueDeleted(func(*networkingv1.ServiceCIDR) bool { return true }) // another range may have their addresses now
	})
	reconcile.WatchFunc(c.Controller, config.IPAddresses, func(old, new *networkingv1.IPAddress) {
		if old != nil && new != nil {
			return
		}
		for _, ip := range []*networkingv1.IPAddress{old, new} {
			if ip != nil && managed(ip) {
				c.enqueueDeleted(func(r *networkingv1.ServiceCIDR) bool { return contains(r, ip.Name) })
			}
		}
	})
	return c, nil
}

// enqueueDeleted enqueues the ServiceCIDRs that are being deleted and selected.
func (c *Ranges) enqueueDeleted(selected func(*networkingv1.ServiceCIDR) bool) {
	for r := range c.config.ServiceCIDRs.All() {
		if r.DeletionTimestamp != nil && selected(r) {
			c.Enqueue(r.Name)
		}
	}
}

func (c *Ranges) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	r, ok := c.config.ServiceCIDRs.Get(name)
	if !ok {
		return reconcile.Result{}, nil
	}
	if r.DeletionTimestamp != nil {
		return c.release(ctx, r)
	}
	if !slices.Contains(r.Finalizers, rangeFinalizer) {
		next := r.DeepCopy()
		next.Finalizers = append(next.Finalizers, rangeFinalizer)
		var err error
		if r, err = c.config.Writer.Update(ctx, next); err != nil {
			return reconcile.Result{}, gone(err, "add the finalizer of", name)
		}
	}
	return reconcile.Result{}, c.condition(ctx, r, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
}

// release removes the finalizer of a ServiceCIDR that is being deleted, or says why it stays.
func (c *Ranges) release(ctx context.Context, r *networkingv1.ServiceCIDR) (reconcile.Result, error) {
	if !slices.Contains(r.Finalizers, rangeFinalizer) {
		return reconcile.Result{}, nil
	}
	wait := deletionGrace - time.Since(r.DeletionTimestamp.Time)
	free, err := c.free(ctx, r, wait <= 0)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("addresses of ServiceCIDR %s: %w", r.Name, err)
	}
	switch {
	case !free:
		return reconcile.Result{}, c.condition(ctx, r, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	case wait > 0:
		return reconcile.Result{After: wait}, nil
	}
	next := r.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == rangeFinalizer })
	_, err = c.config.Writer.Update(ctx, next)
	return reconcile.Result{}, gone(err, "remove the finalizer of", r.Name)
}

// free reports whether no address of a ServiceCIDR is in use, or whether each is also of another one
// that stays. If sure is set, the API is asked for addresses that the cache may not have yet.
func (c *Ranges) free(ctx context.Context, r *networkingv1.ServiceCIDR, sure bool) (bool, error) {
	var others []*networkingv1.ServiceCIDR
	for other := range c.config.ServiceCIDRs.All() {
		if other.Name != r.Name && other.DeletionTimestamp == nil {
			others = append(others, other)
		}
	}
	blocks := func(ip *networkingv1.IPAddress) bool {
		return managed(ip) && contains(r, ip.Name) && !slices.ContainsFunc(others, func(o *networkingv1.ServiceCIDR) bool { return contains(o, ip.Name) })
	}
	for ip := range c.config.IPAddresses.All() {
		if blocks(ip) {
			return false, nil
		}
	}
	if !sure {
		return true, nil
	}
	addresses, err := c.config.ListAddresses(ctx)
	return !slices.ContainsFunc(addresses, blocks), err
}

// condition sets the condition Ready, unless it is so.
func (c *Ranges) condition(ctx context.Context, r *networkingv1.ServiceCIDR, want metav1.Condition) error {
	want.Type = networkingv1.ServiceCIDRConditionReady
	next := r.DeepCopy()
	if !meta.SetStatusCondition(&next.Status.Conditions, want) {
		return nil
	}
	_, err := c.config.StatusWriter.UpdateStatus(ctx, next)
	return gone(err, "update the status of", r.Name)
}

// gone describes the failure of a write. It is none if the object does not exist any more.
func gone(err error, what, name string) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s ServiceCIDR %s: %w", what, name, err)
}

// contains reports whether an address is of a ServiceCIDR: not the address of the network itself and,
// with IPv4, not its broadcast address, which services do not get.
func contains(r *networkingv1.ServiceCIDR, text string) bool {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(r.Spec.CIDRs, func(text string) bool {
		cidr, err := netip.ParsePrefix(text)
		return err == nil && cidr.Contains(address) && cidr.Masked().Addr() != address && (address.Is6() || cidr.Contains(address.Next()))
	})
}
