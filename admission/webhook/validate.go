package webhook

import (
	"context"
	"fmt"
	"sync"

	"github.com/planekit/planekit/admission"
	admissionapi "k8s.io/api/admission/v1"
)

// outcome is the result of calling one webhook.
type outcome struct {
	response *admissionapi.AdmissionResponse
	err      error
}

// Validate calls the validating webhooks that match r, all at once. The error is that of the first
// webhook, in order, that refuses r.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	hooks, err := p.hooks(ctx, r, &p.validating)
	if err != nil || len(hooks) == 0 {
		return err
	}
	q := question{r: r}
	var concerned []*hook
	for _, h := range hooks {
		switch ok, err := p.asks(ctx, h, &q); {
		case err != nil:
			return err
		case ok:
			concerned = append(concerned, h)
		}
	}
	if len(concerned) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return outOfTime()
	}
	return p.conclude(ctx, r, concerned, askAll(ctx, concerned, &q))
}

func askAll(ctx context.Context, hooks []*hook, q *question) []outcome {
	outcomes := make([]outcome, len(hooks))
	if err := q.complete(); err != nil {
		for i, h := range hooks {
			outcomes[i].err = &failure{h.name, fmt.Errorf("could not create admission objects: %w", err)}
		}
		return outcomes
	}
	var asking sync.WaitGroup
	for i, h := range hooks {
		asking.Go(func() { outcomes[i].response, outcomes[i].err = h.ask(ctx, q) })
	}
	asking.Wait()
	return outcomes
}

// conclude adds the warnings and annotations of all answers in order, in the request's own
// goroutine, and returns the result.
func (p *Plugin) conclude(ctx context.Context, r *admission.Request, hooks []*hook, outcomes []outcome) error {
	var refused error
	for i, h := range hooks {
		err := outcomes[i].err
		if err == nil {
			h.tell(r, outcomes[i].response)
			if !outcomes[i].response.Allowed {
				err = h.denied(outcomes[i].response.Result)
			}
		} else if p.forgiven(ctx, h, r, err, fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", i)) {
			err = nil
		}
		if refused == nil && err != nil {
			refused = refusal(err)
		}
	}
	if refused == nil && ctx.Err() != nil {
		return outOfTime()
	}
	return refused
}
