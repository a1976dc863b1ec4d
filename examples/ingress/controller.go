package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/ingress/router"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// controllerName is the spec.controller of the classes that this program serves.
const controllerName = "planekit.github.io/ingress"

// settle is how long changes of Ingresses are collected before there is a new table.
const settle = 50 * time.Millisecond

// key is a part of the configuration of the proxy: the table, or what belongs to a service or a secret.
type key struct{ part, name string }

const (
	tablePart   = "table"
	servicePart = "service"
	secretPart  = "secret"
)

type controller struct {
	api       *client.Client
	class     string
	published []networkingv1.IngressLoadBalancerIngress
	proxy     *router.Proxy
	events    *events.Recorder

	ingresses *informer.Informer[*networkingv1.Ingress]
	classes   *informer.Informer[*networkingv1.IngressClass]
	services  *informer.Informer[*corev1.Service]
	slices    *informer.Informer[*discoveryv1.EndpointSlice]
	byService *informer.Index[string, *discoveryv1.EndpointSlice]
	secrets   *informer.Informer[*corev1.Secret]
	// parts has one worker, to which the fields below belong: no older state can replace a newer one.
	// statuses writes to the API server, with several.
	parts    *reconcile.Controller[key]
	statuses *reconcile.Controller[string]
	own      []*networkingv1.Ingress
	said     map[string]bool // problems
}

func newController(api *client.Client, o options, published []networkingv1.IngressLoadBalancerIngress) (*controller, error) {
	c := &controller{api: api, class: o.class, published: published}
	var all [9]error
	log := o.log
	c.proxy, all[0] = router.NewProxy(router.Config{Dial: o.dial, Log: log.WithName("proxy")})
	c.events, all[1] = events.New(events.Config{Client: api, Component: "ingress", Log: log.WithName("events")})
	c.ingresses, all[2] = informer.For(typed.Ingresses(api))
	c.classes, all[3] = informer.For(typed.IngressClasses(api))
	c.services, all[4] = informer.For(typed.Services(api))
	c.slices, all[5] = informer.For(typed.EndpointSlices(api))
	c.secrets, all[6] = informer.For(typed.Secrets(api).Where("", "", "type="+string(corev1.SecretTypeTLS)))
	c.parts, all[7] = reconcile.New(reconcile.Config[key]{Name: "ingress", Reconcile: c.reconcile, Workers: 1, Log: log})
	c.statuses, all[8] = reconcile.New(reconcile.Config[string]{Name: "ingress status", Reconcile: c.writeStatus, Log: log})
	if err := errors.Join(all[:]...); err != nil {
		return nil, err
	}
	c.byService = informer.NewIndex(c.slices, func(s *discoveryv1.EndpointSlice) []string { return []string{serviceOf(s)} })
	table := key{part: tablePart}
	reconcile.WatchFunc(c.parts, c.ingresses, func(old, new *networkingv1.Ingress) {
		if old == nil || new == nil || old.Generation != new.Generation || !maps.Equal(old.Annotations, new.Annotations) {
			c.parts.EnqueueAfter(table, settle)
		}
		if new != nil {
			c.statuses.Enqueue(router.Key(new))
		}
	})
	reconcile.WatchFunc(c.parts, c.classes, func(_, _ *networkingv1.IngressClass) { c.parts.EnqueueAfter(table, settle) })
	reconcile.Watch(c.parts, c.services, reconcile.Itself(partOf[*corev1.Service](servicePart)))
	reconcile.Watch(c.parts, c.secrets, reconcile.Itself(partOf[*corev1.Secret](secretPart)))
	reconcile.Watch(c.parts, c.slices, reconcile.Itself(func(s *discoveryv1.EndpointSlice) key { return key{servicePart, serviceOf(s)} }))
	return c, nil
}

func partOf[T localcache.Object](part string) func(T) key {
	return func(object T) key { return key{part, localcache.KeyOf(object)} }
}

func serviceOf(s *discoveryv1.EndpointSlice) string {
	return localcache.Key(s.Namespace, s.Labels[discoveryv1.LabelServiceName])
}

// run keeps the proxy up to date until ctx is done.
func (c *controller) run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{
		c.ingresses.Run, c.classes.Run, c.services.Run, c.slices.Run, c.secrets.Run, c.events.Run, c.parts.Run, c.statuses.Run,
	} {
		parts.Go(func() error { return part(ctx) })
	}
	return parts.Wait()
}

func (c *controller) reconcile(_ context.Context, k key) (reconcile.Result, error) {
	services, secrets := c.proxy.Table().References()
	switch {
	case k.part == tablePart:
		c.setTable()
	case k.part == servicePart && services[k.name]:
		c.setService(k.name)
	case k.part == secretPart && secrets[k.name]:
		c.setSecret(k.name)
	}
	return reconcile.Result{}, nil
}

// setTable makes the table, once the proxy has the services and certificates that it names.
func (c *controller) setTable() {
	c.own = router.Own(controllerName, c.class, slices.Collect(c.ingresses.All()), slices.Collect(c.classes.All()))
	table := router.NewTable(c.own)
	services, secrets := table.References()
	servicesBefore, secretsBefore := c.proxy.Table().References()
	each(services, servicesBefore, c.setService)
	each(secrets, secretsBefore, c.setSecret)
	c.proxy.SetTable(table)
	each(servicesBefore, services, func(name string) { c.proxy.SetService(name, nil) })
	each(secretsBefore, secrets, c.proxy.RemoveSecret)
	c.sayProblems(table)
	for _, in := range c.own {
		c.statuses.Enqueue(router.Key(in))
	}
}

// sayProblems records an event about each problem that there was not before.
func (c *controller) sayProblems(table *router.Table) {
	said := map[string]bool{}
	say := func(object client.Object, reason, message string) {
		id := object.GetNamespace() + "/" + object.GetName() + reason + message
		if said[id] = true; !c.said[id] {
			c.events.Event(object, corev1.EventTypeWarning, reason, message)
		}
	}
	for _, p := range table.Problems() {
		say(p.Ingress, p.Reason, p.Message)
	}
	for class := range c.classes.All() {
		if class.Spec.Controller == controllerName && class.Spec.Parameters != nil {
			say(class, "UnsupportedParameters", "spec.parameters has no effect")
		}
	}
	c.said = said
}

// each calls f for what is in a set and not in another.
func each(set, without map[string]bool, f func(string)) {
	for name := range set {
		if !without[name] {
			f(name)
		}
	}
}

// warn records an event about each Ingress that names a service or a secret.
func (c *controller) warn(namespace, service, secret, reason, message string) {
	for _, in := range c.own {
		if in.Namespace == namespace && router.References(in, service, secret) {
			c.events.Event(in, corev1.EventTypeWarning, reason, message)
		}
	}
}

// setService passes the endpoints of a service on.
func (c *controller) setService(name string) {
	service, ok := c.services.Get(name)
	switch {
	case !ok:
		c.proxy.SetService(name, nil)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		c.proxy.SetService(name, nil)
		c.warn(service.Namespace, service.Name, "", "UnsupportedBackend", "service "+service.Name+" is of type ExternalName, which has no endpoints")
	default:
		c.proxy.SetService(name, router.Endpoints(service, slices.Collect(c.byService.Get(name))))
	}
}

// setSecret passes the certificate of a secret on.
func (c *controller) setSecret(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	secret, ok := c.secrets.Get(key)
	if !ok {
		c.proxy.RemoveSecret(key)
		c.warn(namespace, "", name, "InvalidCertificate", "there is no secret "+name+" of type "+string(corev1.SecretTypeTLS))
		return
	}
	if err := c.proxy.SetSecret(key, secret); err != nil {
		c.warn(namespace, "", name, "InvalidCertificate", "secret "+name+": "+err.Error())
	}
}

// writeStatus writes the addresses of this program to the status of an Ingress that the table has.
func (c *controller) writeStatus(ctx context.Context, name string) (reconcile.Result, error) {
	in, ok := c.ingresses.Get(name)
	if !ok || len(c.published) == 0 || !c.proxy.Table().Has(name) || equality.Semantic.DeepEqual(in.Status.LoadBalancer.Ingress, c.published) {
		return reconcile.Result{}, nil
	}
	in = in.DeepCopy()
	in.Status.LoadBalancer.Ingress = c.published
	_, err := typed.Ingresses(c.api).UpdateStatus(ctx, in)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // the change calls again
	}
	return reconcile.Result{}, err
}
