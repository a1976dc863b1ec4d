package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/planekit/planekit/admission"
	admissionapi "k8s.io/api/admission/v1"
)

// outcome is the result of calling one webhook.
type outcome struct {
	response *admissionapi.AdmissionResponse
	err      error
	took     time.Duration
}

// Validate calls the validating webhooks that match r, all at once. The error is that of the first
// webhook, in order, that refuses r.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	hooks, err := p.hooks(ctx, r, &p.validating)
	if err != nil || len(hooks) == 0 {
		return err
	}
	all := newQuestions(r, false)
	var concerned []*hook
	var asked []*question // the question for each of them
	for _, h := range hooks {
		switch q, err := p.asks(ctx, h, &all); {
		case err != nil:
			return err
		case q != nil:
			concerned, asked = append(concerned, h), append(asked, q)
		}
	}
	if len(concerned) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return outOfTime()
	}
	began := time.Now()
	outcomes := askAll(ctx, concerned, asked)
	if r.Waited != nil {
		r.Waited(time.Since(began))
	}
	return p.conclude(ctx, r, concerned, outcomes)
}

// askAll asks each of hooks its question.
func askAll(ctx context.Context, hooks []*hook, asked []*question) []outcome {
	outcomes := make([]outcome, len(hooks))
	for i, h := range hooks {
		if err := asked[i].complete(); err != nil {
			outcomes[i].err = &failure{h.name, fmt.Errorf("could not create admission objects: %w", err)}
		}
	}
	var asking sync.WaitGroup
	for i, h := range hooks {
		if outcomes[i].err == nil {
			asking.Go(func() {
				began := time.Now()
				outcomes[i].response, outcomes[i].err = h.ask(ctx, asked[i])
				outcomes[i].took = time.Since(began)
			})
		}
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
		p.called(h, r, outcomes[i].took, err)
		if refused == nil && err != nil {
			refused = refusal(err)
		}
	}
	if refused == nil && ctx.Err() != nil {
		return outOfTime()
	}
	return refused
}
