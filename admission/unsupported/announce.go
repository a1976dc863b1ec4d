package unsupported

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/admission"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// queueSize bounds the queue of events. More are dropped; their clients have received a
	// warning.
	queueSize = 256
	// settle is how long a write must have been stored before its event is written.
	settle = time.Second
	// pace is the interval between events.
	pace = 100 * time.Millisecond
	// remembered bounds the number of generations whose events are recorded as written.
	remembered = 4096
	// longest is the maximum length of a message in events.k8s.io, in bytes.
	longest = 1024
)

// notice is an event to be written.
type notice struct {
	resource   admission.GroupVersionResource
	kind       admission.GroupVersionKind
	about      corev1.ObjectReference
	generation int64
	message    string
	at         time.Time
}

// announced identifies an event that was written.
type announced struct {
	uid        types.UID
	generation int64
	message    string
}

// announce queues an event about an object that will be stored.
func (p *Plugin) announce(r *admission.Request, object metav1.Object, found []string) {
	n := notice{
		resource: r.Resource, kind: r.Kind, about: reference(r, object),
		generation: object.GetGeneration(), message: message(found), at: time.Now(),
	}
	select {
	case p.queue <- n:
	default:
		p.config.Log.V(1).Info("event dropped", "object", n.about.Namespace+"/"+n.about.Name, "reason", Reason)
	}
}

// message joins as many texts as fit.
func message(texts []string) string {
	out := strings.Join(texts, "; ")
	for n := len(texts) - 1; len(out) > longest && n > 0; n-- {
		out = fmt.Sprintf("%s; and %d more", strings.Join(texts[:n], "; "), len(texts)-n)
	}
	return out[:min(len(out), longest)]
}

// Run writes the events until ctx is done, then returns nil.
func (p *Plugin) Run(ctx context.Context) error {
	written := map[announced]bool{}
	for {
		var n notice
		select {
		case <-ctx.Done():
			return nil
		case n = <-p.queue:
		}
		key := announced{uid: n.about.UID, generation: n.generation, message: n.message}
		if written[key] {
			continue
		}
		if !sleep(ctx, max(pace, settle-time.Since(n.at))) {
			return nil
		}
		stored, err := p.config.Lookup(ctx, n.resource, n.kind, n.about.Namespace, n.about.Name)
		if err != nil || stored.GetUID() != n.about.UID || stored.GetGeneration() < n.generation {
			continue // the write has failed, or the object is deleted
		}
		if len(written) >= remembered {
			clear(written)
		}
		written[key] = true
		p.config.Event(&n.about, corev1.EventTypeWarning, Reason, n.message)
	}
}

// sleep waits for d. It returns false if ctx is done before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
