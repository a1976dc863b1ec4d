// Package unsupported warns about kinds and fields that the cluster accepts but does not act on.
//
// One table, [Table], lists the kinds and fields that are stored without effect, and what happens
// instead. A [Plugin] checks every write against it:
//
//	plugin, err := unsupported.New(unsupported.Config{Lookup: lookup, Event: recorder.Event})
//	if err != nil { ... }
//	chain.Validators = append(chain.Validators, plugin)
//	go plugin.Run(ctx)
//
// The client gets a Warning header for each row that applies, beginning with the field's path. The
// object gets an event with the reason NotImplemented, once for each of its generations. A write is
// never refused or delayed: Run writes the events at a bounded rate, and events that do not fit
// into its queue are dropped.
//
// Pods of a workload's controller are not checked, because the workload's template was. Writes of
// the API server itself are not checked either. An update is checked again if it changes the spec.
//
// A row must be removed when its feature is implemented. The package's tests require that for every
// field of a pod, a service and the workloads either a row names it or a source file uses it.
// [Markdown] renders the table.
package unsupported

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authn/user"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reason is the reason of the events.
const Reason = "NotImplemented"

// Config configures a [Plugin].
type Config struct {
	// Table lists the rows to check; nil means [Table].
	Table []Row
	// Lookup reads the metadata of a stored object. Run calls it before it writes an event, so that
	// writes that failed after admission have none. Required.
	Lookup func(ctx context.Context, resource admission.GroupVersionResource, kind admission.GroupVersionKind, namespace, name string) (metav1.Object, error)
	// Event records an event; *events.Recorder has such a method. Required.
	Event func(about runtime.Object, eventType, reason, message string)
	// Log receives dropped events at V(1). The zero Logger discards them.
	Log logr.Logger
}

// Plugin warns about kinds and fields without effect.
type Plugin struct {
	config Config
	// rows holds the rows by resource and group, as in "deployments.apps".
	rows  map[string][]compiled
	queue chan notice // of size queueSize
}

// builtIn compiles the built-in table once for all servers of the process.
var builtIn = sync.OnceValues(func() (map[string][]compiled, error) { return compileAll(Table()) })

// New compiles the table. A row that names a field which does not exist is an error.
func New(c Config) (*Plugin, error) {
	if c.Lookup == nil || c.Event == nil {
		return nil, errors.New("unsupported: Lookup and Event must be set")
	}
	compile := builtIn
	if c.Table != nil {
		compile = func() (map[string][]compiled, error) { return compileAll(c.Table) }
	}
	rows, err := compile()
	if err != nil {
		return nil, err
	}
	return &Plugin{config: c, rows: rows, queue: make(chan notice, queueSize)}, nil
}

// Validate warns the client and queues an event. It never refuses a request.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	rows := p.rows[resourceName(r.Resource)]
	if len(rows) == 0 || r.Subresource != "" || r.Operation != admission.Create && r.Operation != admission.Update {
		return nil
	}
	object, ok := r.Object.(metav1.Object)
	if !ok || object.GetDeletionTimestamp() != nil || fromTemplate(object) || r.User != nil && r.User.Name == user.APIServer {
		return nil
	}
	found := find(rows, r.Kind, r.Object)
	if old, ok := r.OldObject.(metav1.Object); ok && old.GetGeneration() == object.GetGeneration() &&
		slices.Equal(found, find(rows, r.Kind, r.OldObject)) {
		return nil
	}
	if len(found) == 0 {
		return nil
	}
	if r.Warn != nil {
		for _, text := range atMost(found, warnings) {
			r.Warn(text)
		}
	}
	if !r.DryRun {
		p.announce(r, object, found)
	}
	return nil
}

// resourceName returns the name of a resource in kubectl's form.
func resourceName(r admission.GroupVersionResource) string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// fromTemplate reports whether a controller created object from the template of a workload, which
// was checked itself.
func fromTemplate(object metav1.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && slices.Contains([]string{
		"apps/v1 Deployment", "apps/v1 ReplicaSet", "batch/v1 Job", "v1 ReplicationController",
	}, owner.APIVersion+" "+owner.Kind)
}

// reference returns the object reference of an event about a request.
func reference(r *admission.Request, object metav1.Object) corev1.ObjectReference {
	version := r.Kind.Version
	if r.Kind.Group != "" {
		version = r.Kind.Group + "/" + version
	}
	return corev1.ObjectReference{
		APIVersion: version, Kind: r.Kind.Kind,
		Namespace: r.Namespace, Name: object.GetName(), UID: object.GetUID(),
	}
}
