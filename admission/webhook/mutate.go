package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/patched"
	"k8s.io/apimachinery/pkg/runtime"
)

// Mutate calls the mutating webhooks that match r, one after another, and applies their patches.
func (p *Plugin) Mutate(ctx context.Context, r *admission.Request) error {
	hooks, err := p.hooks(ctx, r, &p.mutating)
	repeats := p.config.Repeat != nil && p.config.Repeat(ctx)
	if err != nil || len(hooks) == 0 && !repeats {
		return err
	}
	m := mutation{plugin: p, hooks: hooks, r: r, all: newQuestions(r, true)}
	if err := m.round(ctx); err != nil || !m.changed && !repeats {
		return err
	}
	if err := m.repeat(ctx); err != nil {
		return err
	}
	m.second = true
	return m.round(ctx)
}

// mutation is one request's pass through the mutating webhooks.
type mutation struct {
	plugin *Plugin
	hooks  []*hook
	r      *admission.Request
	all    questions
	// changed means that a webhook has changed the object; second that this is the second round.
	changed, second bool
	// asked holds the webhooks that were called and are called again if the object changes from now
	// on; due holds those for the second round. Both are by index in hooks.
	asked, due map[int]bool
}

// repeat runs the earlier plugins again after webhooks have changed the object. If they change it,
// webhooks are called again.
func (m *mutation) repeat(ctx context.Context) error {
	again, r := m.plugin.config.Again, m.r
	if again == nil {
		return nil
	}
	before := r.Object
	if o, ok := before.(runtime.Object); ok {
		before = o.DeepCopyObject()
	}
	if err := again.Mutate(ctx, r); err != nil {
		return err
	}
	if !patched.Same(before, r.Object) {
		m.touched(nil)
	}
	return nil
}

// touched records that the object has changed since the last calls. by, if not nil, is the question
// whose answer has changed it.
func (m *mutation) touched(by *question) {
	m.all.changed(by)
	if m.due == nil {
		m.due = map[int]bool{}
	}
	for i := range m.asked {
		m.due[i] = true
	}
	m.asked = nil
}

// round calls the webhooks once; in the second round only those that are due.
func (m *mutation) round(ctx context.Context) error {
	for i, h := range m.hooks {
		if m.second && !m.due[i] {
			continue
		}
		q, err := m.plugin.asks(ctx, h, &m.all)
		if err != nil {
			return err
		}
		if q == nil {
			continue
		}
		began := time.Now()
		changed, err := m.ask(ctx, i, h, q)
		took := time.Since(began)
		if m.r.Waited != nil {
			m.r.Waited(took)
		}
		if changed {
			m.changed = true
			m.touched(q)
		}
		if h.again {
			if m.asked == nil {
				m.asked = map[int]bool{}
			}
			m.asked[i] = true
		}
		if err == nil {
			m.plugin.called(h, m.r, took, nil)
			continue
		}
		if !m.plugin.forgiven(ctx, h, m.r, err, m.annotation("failed-open.mutation.webhook.admission.k8s.io/", i)) {
			m.plugin.called(h, m.r, took, err)
			return refusal(err)
		}
		m.plugin.called(h, m.r, took, nil)
		if ctx.Err() != nil {
			return outOfTime()
		}
	}
	return nil
}

// annotation returns the key of the audit annotation for the i-th webhook in this round.
func (m *mutation) annotation(prefix string, i int) string {
	round := 0
	if m.second {
		round = 1
	}
	return fmt.Sprintf("%sround_%d_index_%d", prefix, round, i)
}

// annotatePatch records the patch of h in the audit event, if it contains bodies.
func (m *mutation) annotatePatch(i int, h *hook, patch []byte) {
	if m.r.AnnotateBody == nil {
		return
	}
	value, err := json.Marshal(struct {
		Configuration string          `json:"configuration"`
		Webhook       string          `json:"webhook"`
		Patch         json.RawMessage `json:"patch,omitempty"`
		PatchType     string          `json:"patchType,omitempty"`
	}{h.configuration, h.name, patch, "JSONPatch"})
	if err == nil {
		m.r.AnnotateBody(m.annotation("patch.webhook.admission.k8s.io/", i), string(value))
	}
}

// ask asks h, applies its patch and reports whether the object has changed.
func (m *mutation) ask(ctx context.Context, i int, h *hook, q *question) (changed bool, err error) {
	r := m.r
	if r.Annotate != nil {
		defer func() {
			value, _ := json.Marshal(struct { // strings and a bool: it cannot fail
				Configuration string `json:"configuration"`
				Webhook       string `json:"webhook"`
				Mutated       bool   `json:"mutated"`
			}{h.configuration, h.name, changed})
			r.Annotate(m.annotation("mutation.webhook.admission.k8s.io/", i), string(value))
		}()
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, h.timeout) // covers the answer and applying the patch
	defer cancel()
	response, err := h.ask(ctx, q)
	if err != nil {
		return false, err
	}
	h.tell(r, response)
	if !response.Allowed {
		return false, h.denied(response.Result)
	}
	if len(response.Patch) == 0 {
		return false, nil
	}
	object, err := h.patched(ctx, q, response.Patch)
	if err != nil || object == nil {
		return false, err
	}
	same := patched.Same(q.r.Object, object)
	m.annotatePatch(i, h, response.Patch)
	if same && q.r != r {
		return false, nil // a conversion might change the object
	}
	if err := q.replace(outer, object); err != nil {
		return false, err
	}
	return !same, nil
}
