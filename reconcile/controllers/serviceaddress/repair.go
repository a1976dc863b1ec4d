package serviceaddress

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// storeTime is how long an API server may take to store a service after it has created the IPAddress.
// An IPAddress without a service is deleted afterwards.
const storeTime = time.Minute

// RepairConfig configures a Repair. All fields but the last three are required.
type RepairConfig struct {
	Services          localcache.Cache[*corev1.Service]
	ServicesByAddress localcache.Index[string, *corev1.Service] // see [ByAddress]
	IPAddresses       localcache.Cache[*networkingv1.IPAddress]
	ServiceCIDRs      localcache.Cache[*networkingv1.ServiceCIDR]
	ServiceReader     controllers.Getter[*corev1.Service]
	Writer            AddressWriter
	Events            controllers.Events
	// Workers is the number of addresses processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// AddressWriter creates and deletes IPAddresses.
type AddressWriter interface {
	controllers.Creator[*networkingv1.IPAddress]
	controllers.Deleter
}

// Repair creates the IPAddress of a service that has none, as after a client has deleted it, and
// deletes the IPAddresses of services that do not exist or have another address. An address that no
// ServiceCIDR contains is not restored; the service gets an event.
type Repair struct {
	*reconcile.Controller[string] // of addresses
	config                        RepairConfig
}

// NewRepair returns a controller, or an error if config lacks a required field. It starts nothing.
func NewRepair(config RepairConfig) (*Repair, error) {
	err := loop.Required("serviceaddress: RepairConfig", "Services", config.Services, "ServicesByAddress", config.ServicesByAddress,
		"IPAddresses", config.IPAddresses, "ServiceCIDRs", config.ServiceCIDRs, "ServiceReader", config.ServiceReader, "Writer", config.Writer, "Events", config.Events)
	if err != nil {
		return nil, err
	}
	c := &Repair{config: config}
	if c.Controller, err = loop.New(loop.Config{Name: "service_address_repair", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.IPAddresses, reconcile.Itself((*networkingv1.IPAddress).GetName))
	reconcile.WatchFunc(c.Controller, config.Services, func(old, new *corev1.Service) {
		var was, is []string
		if old != nil {
			was = ByAddress(old)
		}
		if new != nil {
			is = ByAddress(new)
		}
		if old != nil && new != nil && old.UID == new.UID && slices.Equal(was, is) {
			return
		}
		for _, address := range slices.Concat(was, is) {
			c.Enqueue(address)
		}
	})
	reconcile.WatchFunc(c.Controller, config.ServiceCIDRs, func(old, new *networkingv1.ServiceCIDR) {
		if old == nil || new == nil {
			c.enqueueIn(cmp.Or(old, new))
		}
	})
	return c, nil
}

// enqueueIn enqueues the addresses of services that a ServiceCIDR contains.
func (c *Repair) enqueueIn(r *networkingv1.ServiceCIDR) {
	for s := range c.config.Services.All() {
		for _, address := range ByAddress(s) {
			if contains(r, address) {
				c.Enqueue(address)
			}
		}
	}
}

func (c *Repair) reconcile(ctx context.Context, address string) (reconcile.Result, error) {
	services := slices.SortedFunc(c.config.ServicesByAddress.Get(address), func(a, b *corev1.Service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(localcache.KeyOf(a), localcache.KeyOf(b)))
	})
	ip, ok := c.config.IPAddresses.Get(address)
	if len(services) > 0 && !c.inRange(address) {
		// The caches may have the service before its ServiceCIDR.
		if wait := storeTime - time.Since(services[0].CreationTimestamp.Time); wait > 0 {
			return reconcile.Result{After: wait}, nil
		}
		c.reportOutOfRange(address, services)
		if !ok || !managed(ip) {
			return reconcile.Result{}, nil
		}
	}
	switch {
	case !ok && len(services) > 0:
		return reconcile.Result{}, c.restore(ctx, address, services[0])
	case !ok:
		return reconcile.Result{}, nil
	case managed(ip):
		return c.check(ctx, ip, services)
	case len(services) == 0:
		return reconcile.Result{}, nil
	}
	// A client has created or changed it. The service has the address.
	if has, err := c.has(ctx, services[0].Namespace, services[0].Name, address); !has || err != nil {
		return reconcile.Result{}, err
	}
	c.config.Events.Event(services[0], corev1.EventTypeWarning, "ClusterIPNotAllocated", fmt.Sprintf(
		"the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", familyOf(address), address, services[0].Namespace, services[0].Name))
	return reconcile.Result{}, c.remove(ctx, ip)
}

func (c *Repair) inRange(address string) bool {
	for r := range c.config.ServiceCIDRs.All() {
		if contains(r, address) {
			return true
		}
	}
	return false
}

func (c *Repair) reportOutOfRange(address string, services []*corev1.Service) {
	for _, s := range services {
		c.config.Events.Event(s, corev1.EventTypeWarning, "ClusterIPOutOfRange", fmt.Sprintf(
			"Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", familyOf(address), address))
	}
}

// restore creates the IPAddress of a service that has none.
func (c *Repair) restore(ctx context.Context, address string, s *corev1.Service) error {
	if has, err := c.has(ctx, s.Namespace, s.Name, address); !has || err != nil {
		return err
	}
	_, err := c.config.Writer.Create(ctx, newAddress(address, s))
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache is stale
	}
	if err != nil {
		return fmt.Errorf("create IPAddress %s: %w", address, err)
	}
	c.config.Events.Event(s, corev1.EventTypeWarning, "ClusterIPNotAllocated", fmt.Sprintf(
		"Cluster IP [%v]: %s is not allocated; repairing", familyOf(address), address))
	return nil
}

// check deletes an IPAddress whose service does not have it. services have it in their specs.
func (c *Repair) check(ctx context.Context, ip *networkingv1.IPAddress, services []*corev1.Service) (reconcile.Result, error) {
	namespace, name, ok := parentKey(ip)
	owned := slices.ContainsFunc(services, func(s *corev1.Service) bool { return ok && s.Namespace == namespace && s.Name == name })
	if owned && ip.Labels[networkingv1.LabelIPAddressFamily] != string(familyOf(ip.Name)) {
		return reconcile.Result{}, c.remove(ctx, ip)
	}
	if owned {
		for _, s := range services {
			if s.Namespace != namespace || s.Name != name {
				c.config.Events.Event(s, corev1.EventTypeWarning, "ClusterIPAlreadyAllocated", fmt.Sprintf(
					"Cluster IP [%v]:%s was assigned to multiple services; please recreate service", familyOf(ip.Name), ip.Name))
			}
		}
		return reconcile.Result{}, nil
	}
	if wait := storeTime - time.Since(ip.CreationTimestamp.Time); wait > 0 {
		return reconcile.Result{After: wait}, nil
	}
	if ok {
		has, err := c.has(ctx, namespace, name, ip.Name)
		if has || err != nil {
			return reconcile.Result{}, err
		}
	}
	reason, message := "IPAddressNotAllocated", fmt.Sprintf("IPAddress: %s for Service %s/%s appears to have leaked: cleaning up", ip.Name, namespace, name)
	if !ok {
		message = fmt.Sprintf("IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", ip.Name, ip.Spec.ParentRef)
	} else if _, exists := c.config.Services.Get(namespace + "/" + name); exists {
		reason, message = "IPAddressWrongReference", fmt.Sprintf("IPAddress: %s for Service %s/%s has a wrong reference; cleaning up", ip.Name, namespace, name)
	}
	c.config.Events.Event(loop.Reference(ip, networkingv1.SchemeGroupVersion.WithKind("IPAddress")), corev1.EventTypeWarning, reason, message)
	return reconcile.Result{}, c.remove(ctx, ip)
}

// has asks the API whether a service has an address.
func (c *Repair) has(ctx context.Context, namespace, name, address string) (bool, error) {
	s, err := c.config.ServiceReader.Get(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("service %s/%s: %w", namespace, name, err)
	}
	return slices.Contains(ByAddress(s), address), nil
}

// remove deletes an IPAddress, unless it has changed. Its deletion makes the controller look again.
func (c *Repair) remove(ctx context.Context, ip *networkingv1.IPAddress) error {
	if ip.DeletionTimestamp != nil {
		return nil // a finalizer keeps it
	}
	err := c.config.Writer.Delete(ctx, "", ip.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &ip.UID, ResourceVersion: &ip.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete IPAddress %s: %w", ip.Name, err)
	}
	return nil
}
