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
	// queueSize bounds the events that wait to be written. More are dropped: their clients were
	// warned.
	queueSize = 256
	// settle is how long a write has to be stored before its event is written.
	settle = time.Second
	// pace is the time from one event to the next.
	pace = 100 * time.Millisecond
	// remembered bounds the generations whose events are known to be written.
	remembered = 4096
	// longest is the longest message of an event, in bytes: what events.k8s.io takes.
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

// announced identifies what an event was written for.
type announced struct {
	uid        types.UID
	generation int64
	message    string
}

// announce queues an event about an object that is about to be stored.
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

// message joins texts, as many as fit.
func message(texts []string) string {
	out := strings.Join(texts, "; ")
	for n := len(texts) - 1; len(out) > longest && n > 0; n-- {
		out = fmt.Sprintf("%s; and %d more", strings.Join(texts[:n], "; "), len(texts)-n)
	}
	return out[:min(len(out), longest)]
}

// Run writes the events until ctx is done; it returns nil then.
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
			continue // refused, or gone already
		}
		if len(written) >= remembered {
			clear(written)
		}
		written[key] = true
		p.config.Event(&n.about, corev1.EventTypeWarning, Reason, n.message)
	}
}

// sleep waits; it reports false if ctx was done before.
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
