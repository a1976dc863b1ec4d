package webhook

import (
	"context"
	"encoding/json"
	"fmt"

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
	m := mutation{plugin: p, hooks: hooks, q: question{r: r}}
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
	q      question
	// changed means that a webhook has changed the object; second that this is the second round.
	changed, second bool
	// asked holds the webhooks that were called and are called again if the object changes from now
	// on; due holds those for the second round. Both are by index in hooks.
	asked, due map[int]bool
}

// repeat runs the earlier plugins again after webhooks have changed the object. If they change it,
// webhooks are called again.
func (m *mutation) repeat(ctx context.Context) error {
	again, r := m.plugin.config.Again, m.q.r
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
		m.touched()
	}
	return nil
}

// touched records that the object has changed since the last calls.
func (m *mutation) touched() {
	m.q.object = nil
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
		switch ok, err := m.plugin.asks(ctx, h, &m.q); {
		case err != nil:
			return err
		case !ok:
			continue
		}
		changed, err := m.ask(ctx, i, h)
		if changed {
			m.changed = true
			m.touched()
		}
		if h.again {
			if m.asked == nil {
				m.asked = map[int]bool{}
			}
			m.asked[i] = true
		}
		if err == nil {
			continue
		}
		if !m.plugin.forgiven(ctx, h, m.q.r, err, m.annotation("failed-open.mutation.webhook.admission.k8s.io/", i)) {
			return refusal(err)
		}
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
	if m.q.r.AnnotateBody == nil {
		return
	}
	value, err := json.Marshal(struct {
		Configuration string          `json:"configuration"`
		Webhook       string          `json:"webhook"`
		Patch         json.RawMessage `json:"patch,omitempty"`
		PatchType     string          `json:"patchType,omitempty"`
	}{h.configuration, h.name, patch, "JSONPatch"})
	if err == nil {
		m.q.r.AnnotateBody(m.annotation("patch.webhook.admission.k8s.io/", i), string(value))
	}
}

// ask calls h, applies its patch and reports whether the object has changed.
func (m *mutation) ask(ctx context.Context, i int, h *hook) (changed bool, err error) {
	r := m.q.r
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
	ctx, cancel := context.WithTimeout(ctx, h.timeout) // covers the answer and applying the patch
	defer cancel()
	response, err := h.ask(ctx, &m.q)
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
	object, err := h.patched(ctx, &m.q, response.Patch)
	if err != nil || object == nil {
		return false, err
	}
	changed = !patched.Same(r.Object, object)
	m.annotatePatch(i, h, response.Patch)
	r.Object = object
	return changed, nil
}
