package crd

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures Definitions. Server is required.
type Config struct {
	// Server serves the definitions, whose [Resource] is in its Config, and what they describe.
	Server *apiserver.Server
	// User writes the status of definitions and deletes objects. Nil means system:apiserver, a member
	// of system:masters.
	User *user.Info
	// Rules compiles CEL rules. It should be that of [Resource].
	Rules RuleCompiler
	// Resolver resolves the services of conversion webhooks. Nil dials <name>.<namespace>.svc.
	Resolver Resolver
	// Certificate returns the client certificate for a conversion webhook, named as host:port. If it, or its
	// result, is nil, no certificate is presented.
	Certificate func(server string) (*tls.Certificate, error)
	// Changed, if not nil, is called after the served resources have changed, with those that are
	// served now, by one goroutine. It must not block.
	Changed func([]Served)
	// Log is silent when zero.
	Log logr.Logger
}

// A Resolver returns the address of a service. Only the URL's host, which is host:port, is used.
type Resolver interface {
	Resolve(ctx context.Context, namespace, name string, port int32) (*url.URL, error)
}

// Served describes a resource that a definition has made.
type Served struct {
	schema.GroupVersionKind
	Plural     string
	Namespaced bool
}

// Definitions makes a server serve what CustomResourceDefinitions describe.
type Definitions struct {
	config Config
	api    api
	hooks  *webhooks
	ready  chan struct{}

	// known holds the definitions by name; served what is served for them. Only the goroutine of Run
	// uses them.
	known  map[string]*definition
	served map[string]*definition
	// drained holds, for each served definition, the function that waits for the writes that began
	// before its last change.
	drained map[string]func(context.Context) error
	// observed holds the generations for which the conditions have been set.
	observed map[types.UID]int64
	// removals are the deletions in progress.
	removals map[types.UID]bool
	work     sync.WaitGroup
	// finished passes the UIDs of definitions whose removal has ended or failed.
	finished chan types.UID
}

// retryEvery is how long Run waits after a failure.
const retryEvery = 250 * time.Millisecond

// New checks c. It starts nothing.
func New(c Config) (*Definitions, error) {
	if c.Server == nil {
		return nil, errors.New("crd: Server must be set")
	}
	if c.User == nil {
		c.User = &user.Info{Name: user.APIServer, Groups: []string{user.Masters, user.Authenticated}}
	}
	return &Definitions{
		config: c, hooks: newWebhooks(&c), api: newAPI(c.Server.Transport(c.User)), ready: make(chan struct{}),
		known: map[string]*definition{}, served: map[string]*definition{},
		drained: map[string]func(context.Context) error{}, observed: map[types.UID]int64{}, removals: map[types.UID]bool{},
		finished: make(chan types.UID),
	}, nil
}

// Ready is closed when the definitions that were established when Run began are served.
func (d *Definitions) Ready() <-chan struct{} { return d.ready }

// Run follows the definitions until ctx is done. It can be called once.
func (d *Definitions) Run(ctx context.Context) error {
	defer d.work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for first := true; ctx.Err() == nil; first = false {
		err := d.follow(ctx, first)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			d.config.Log.Error(err, "definitions cannot be followed; trying again")
			d.pause(ctx)
		}
	}
	return nil
}

// pause waits before a retry. Removals may end meanwhile.
func (d *Definitions) pause(ctx context.Context) {
	timer := time.NewTimer(retryEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case uid := <-d.finished:
			delete(d.removals, uid)
		case <-ctx.Done():
			return
		}
	}
}

// follow lists the definitions and then watches them. It returns nil if the watch has ended as watches do.
func (d *Definitions) follow(ctx context.Context, first bool) error {
	all, version, err := d.api.list(ctx)
	if err != nil {
		return err
	}
	d.replace(ctx, all)
	if first {
		close(d.ready)
	}
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	events, failed := d.api.watch(watch, version)
	retry := time.NewTimer(retryEvery)
	defer retry.Stop()
	for {
		select {
		case e := <-events:
			if err := d.apply(ctx, e); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case uid := <-d.finished:
			delete(d.removals, uid)
			retry.Reset(retryEvery)
		case <-retry.C:
			d.reconcileAll(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// replace takes over a list of all definitions. What is established is served by one change.
func (d *Definitions) replace(ctx context.Context, all []*definition) {
	d.known = map[string]*definition{}
	for _, one := range all {
		d.known[one.Name] = one
	}
	var change apiserver.Change
	for name, was := range d.served {
		if d.known[name] == nil {
			change.Remove = append(change.Remove, resourceName(was))
			delete(d.served, name)
		}
	}
	served := map[string]*definition{}
	for _, name := range slices.Sorted(maps.Keys(d.known)) {
		one := d.known[name]
		if !serves(one) || d.served[name] != nil && sameResource(one, d.served[name]) {
			continue
		}
		r, err := d.resource(one)
		if err != nil {
			d.config.Log.Error(err, "definition cannot be served", "definition", name)
			continue
		}
		change.Serve = append(change.Serve, r)
		served[name] = one
	}
	if len(change.Serve)+len(change.Remove) > 0 {
		if drained, err := d.config.Server.Change(change); err == nil {
			maps.Copy(d.served, served)
			for name := range served {
				d.drained[name] = drained
			}
			d.report()
		} // else each is tried by itself
	}
	d.reconcileAll(ctx)
}

func (d *Definitions) reconcileAll(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(d.known)) {
		d.reconcile(ctx, d.known[name])
	}
}

// apply takes over a change of one definition.
func (d *Definitions) apply(ctx context.Context, e event) error {
	was := d.known[e.Name]
	if !e.deleted {
		if was != nil && was.UID == e.UID && was.ResourceVersion == e.ResourceVersion {
			return nil // a change that reconcile has made
		}
		one, err := d.api.get(ctx, e.Name, e.ResourceVersion)
		if apierrors.IsNotFound(err) {
			return nil // another event says so
		}
		if err != nil {
			return err
		}
		d.known[e.Name] = one
		d.reconcile(ctx, one)
		return nil
	}
	delete(d.observed, e.UID)
	if was != nil && was.UID != e.UID {
		return nil // the next one of the same name has been read already
	}
	delete(d.known, e.Name)
	if was := d.served[e.Name]; was != nil {
		if _, err := d.config.Server.Change(apiserver.Change{Remove: []schema.GroupResource{resourceName(was)}}); err != nil {
			d.config.Log.Error(err, "resource cannot be removed", "definition", e.Name)
		}
		delete(d.served, e.Name)
		delete(d.drained, e.Name)
		d.report()
	}
	if was != nil {
		d.reconcileGroup(ctx, was) // its names are free now
	}
	return nil
}

func (d *Definitions) reconcileGroup(ctx context.Context, of *definition) {
	for _, name := range slices.Sorted(maps.Keys(d.known)) {
		if other := d.known[name]; other.Spec.Group == of.Spec.Group && name != of.Name && !reflect.DeepEqual(other.Spec.Names, other.Status.AcceptedNames) {
			d.reconcile(ctx, other)
		}
	}
}

// reconcile gives a definition its status and serves it.
func (d *Definitions) reconcile(ctx context.Context, one *definition) {
	next := one.DeepCopy()
	if !reflect.DeepEqual(one.Spec.Names, one.Status.AcceptedNames) || conditionOf(one, apiextensions.NamesAccepted) == nil {
		acceptNames(next, func(yield func(*definition) bool) {
			for name, other := range d.known {
				if name != one.Name && !yield(other) {
					return
				}
			}
		})
	}
	if d.observed[one.UID] != one.Generation || protected(one.Spec.Group) {
		observe(next)
	}
	if isTrue(next, apiextensions.NamesAccepted) || isTrue(next, apiextensions.Established) {
		if badBundle(next) && !isTrue(next, apiextensions.Established) {
			setCondition(next, apiextensions.Established, metav1.ConditionFalse, "InvalidCABundle", "The conversion webhook CABundle is invalid")
		} else if err := d.serve(next); err != nil {
			d.config.Log.Error(err, "definition cannot be served", "definition", one.Name)
			if !isTrue(next, apiextensions.Established) {
				setCondition(next, apiextensions.Established, metav1.ConditionFalse, "Installing", err.Error())
			}
		} else if !isTrue(next, apiextensions.Established) {
			setCondition(next, apiextensions.Established, metav1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted")
		}
	}
	if !sameStatus(one, next) {
		written, err := d.api.updateStatus(ctx, next)
		switch {
		case err == nil:
			next = written
			d.known[next.Name] = next
			d.observed[next.UID] = next.Generation
			if !reflect.DeepEqual(one.Status.AcceptedNames, next.Status.AcceptedNames) {
				defer d.reconcileGroup(ctx, next)
			}
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return // the watch tells
		default:
			d.config.Log.Error(err, "status cannot be written", "definition", one.Name)
			return
		}
	} else {
		d.observed[one.UID] = one.Generation
	}
	if next.DeletionTimestamp != nil && slices.Contains(next.Finalizers, apiextensions.Finalizer) && !d.removals[next.UID] {
		d.removals[next.UID] = true
		drained := d.drained[next.Name]
		d.work.Go(func() { d.remove(ctx, next, drained) })
	}
}

// serve makes the server serve one as it is, unless it does.
func (d *Definitions) serve(one *definition) error {
	if was := d.served[one.Name]; was != nil && sameResource(one, was) {
		return nil
	}
	r, err := d.resource(one)
	if err != nil {
		return err
	}
	drained, err := d.config.Server.Change(apiserver.Change{Serve: []apiserver.Resource{r}})
	if err != nil {
		return err
	}
	d.served[one.Name], d.drained[one.Name] = one, drained
	d.report()
	return nil
}

// resource returns the resource that one describes.
func (d *Definitions) resource(one *definition) (apiserver.Resource, error) {
	r, err := resourceOf(one, d.compiler())
	if err == nil {
		d.hooks.add(one, &r)
	}
	return r, err
}

func (d *Definitions) compiler() func(*structural.Schema) Rules {
	if d.config.Rules == nil {
		return nil
	}
	return d.config.Rules.Compile
}

// report calls Changed, and drops what no served definition needs.
func (d *Definitions) report() {
	d.hooks.sweep(d.served)
	if d.config.Changed == nil {
		return
	}
	var all []Served
	for _, name := range slices.Sorted(maps.Keys(d.served)) {
		one := d.served[name]
		for _, v := range one.Spec.Versions {
			if v.Storage {
				all = append(all, servedAs(one, v))
			}
		}
	}
	d.config.Changed(all)
}

// servedAs describes what one is served as: in its storage version, or if that is not served, in another.
func servedAs(one *definition, v apiextensions.CustomResourceDefinitionVersion) Served {
	name := v.Name
	for _, other := range one.Spec.Versions {
		if !v.Served && other.Served {
			name = other.Name
			break
		}
	}
	return Served{
		GroupVersionKind: schema.GroupVersionKind{Group: one.Spec.Group, Version: name, Kind: one.Status.AcceptedNames.Kind},
		Plural:           one.Status.AcceptedNames.Plural, Namespaced: one.Spec.Scope == apiextensions.NamespaceScoped,
	}
}

// serves reports whether one is to be served.
func serves(one *definition) bool {
	return isTrue(one, apiextensions.NamesAccepted) || isTrue(one, apiextensions.Established)
}

// sameResource reports whether two states of a definition describe the same resource.
func sameResource(a, b *definition) bool {
	return a.UID == b.UID && a.Generation == b.Generation && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		reflect.DeepEqual(a.Status.AcceptedNames, b.Status.AcceptedNames)
}

func resourceName(d *definition) schema.GroupResource {
	return schema.GroupResource{Group: d.Spec.Group, Resource: strings.TrimSuffix(d.Name, "."+d.Spec.Group)}
}
