package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/kubecel"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// denial is why a policy denies a request.
type denial struct {
	policy, binding string // the latter is empty if the policy cannot be used at all
	message         string
	reason          metav1.StatusReason // empty means Invalid
}

// decision describes a violation of the validation with the index.
type decision struct {
	index   int
	message string
	reason  metav1.StatusReason
}

// Validate implements [admission.Validator].
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	all, err := p.current(ctx, r)
	if err != nil || len(all) == 0 {
		return err
	}
	namespace, err := p.namespace(ctx, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, kubecel.TimeLimit)
	defer cancel()
	request := &request{source: &p.source, r: r, namespace: namespace}
	for _, policy := range all {
		if len(policy.match.rules) == 0 {
			continue
		}
		if as, ok := policy.match.selects(r, namespace); ok {
			if err := request.apply(ctx, policy, as); err != nil {
				return err
			}
		}
	}
	if len(request.denials) == 0 {
		return nil
	}
	return refusal(r, request.denials[0])
}

// refusal words the answer to a request that is denied.
func refusal(r *admission.Request, d denial) error {
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", d.policy, d.binding, d.message)
	if d.binding == "" {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", d.policy, d.message)
	}
	err := apierrors.NewForbidden(schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}, r.Called(), errors.New(message))
	status := &err.ErrStatus
	status.Reason, status.Code = d.reason, http.StatusUnprocessableEntity
	switch d.reason {
	case "":
		status.Reason = metav1.StatusReasonInvalid
	case metav1.StatusReasonForbidden:
		status.Code = http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		status.Code = http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		status.Code = http.StatusRequestEntityTooLarge
	}
	status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Message: message})
	return err
}

// request is the evaluation of all policies for one request.
type request struct {
	source    *source
	r         *admission.Request
	namespace *corev1.Namespace
	forms     []*form // those that are needed so far
	denials   []denial
}

// fail denies the request because of a policy, or of a binding, that cannot be used.
func (q *request) fail(p *policy, b *binding, err error) {
	switch {
	case p.ignore:
	case b == nil:
		q.denials = append(q.denials, denial{policy: p.name, message: "failed to configure policy: " + err.Error()})
	default:
		q.denials = append(q.denials, denial{policy: p.name, binding: b.name, message: "failed to configure binding: " + err.Error()})
	}
}

// bindingSteps is the charge to the request's budget for a binding, and for each of its parameters, beside their
// expressions. Requests multiply policies, bindings and parameters.
const bindingSteps = 200

// apply evaluates a policy that matches the request as one of a type. An error ends the request, whatever the policy's
// failurePolicy: its budget does not cover all evaluations.
func (q *request) apply(ctx context.Context, p *policy, as admission.Equivalent) error {
	if p.broken != nil {
		q.fail(p, nil, p.broken)
		return nil
	}
	namespaced, err := q.source.scopeOf(ctx, p)
	if err != nil {
		q.fail(p, nil, err)
		return nil
	}
	spent := budget.From(ctx)
	notes := annotations{}
	for _, b := range p.bindings {
		if err := spent.Work(bindingSteps); err != nil {
			return err
		}
		if b.broken != nil {
			q.fail(p, b, b.broken)
			continue
		}
		if _, ok := b.match.selects(q.r, q.namespace); !ok {
			continue
		}
		params, err := q.source.paramsOf(ctx, p, b.paramRef, namespaced, q.r.Namespace)
		if err != nil {
			q.fail(p, b, err)
			continue
		}
		if len(params) == 0 {
			continue
		}
		f, err := q.form(ctx, as)
		if err != nil {
			q.fail(p, b, fmt.Errorf("failed to convert object version: %w", err))
			continue
		}
		for _, param := range params {
			if err := spent.Work(bindingSteps); err != nil {
				return err
			}
			q.evaluate(ctx, f, p, b, param, notes)
		}
	}
	notes.publish(q.r, p.name)
	return spent.Err()
}

// evaluate evaluates a policy through a binding with one parameter.
func (q *request) evaluate(ctx context.Context, f *form, p *policy, b *binding, param map[string]any, notes annotations) {
	deny := func(message string) {
		if !p.ignore {
			q.conclude(p, b, decision{message: message})
		}
	}
	vars, err := q.variables(ctx, f)
	if err != nil {
		q.fail(p, b, err)
		return
	}
	e := newEvaluation(ctx, p, vars, param)
	switch matches, err := e.matches(); {
	case err != nil:
		deny(err.Error())
		return
	case !matches:
		return
	}
	decisions, err := e.validate()
	if err != nil {
		deny(err.Error())
		return
	}
	for _, d := range decisions {
		q.conclude(p, b, d)
	}
	for i := range p.annotations {
		value, err := e.annotation(&p.annotations[i])
		switch {
		case err != nil && !p.ignore:
			q.denials = append(q.denials, denial{policy: p.name, binding: b.name, message: err.Error()})
		case err == nil && value != "":
			notes.add(budget.From(ctx), p.annotations[i].key, value)
		}
	}
}

// failure describes a violation in the audit event.
type failure struct {
	Message           string                          `json:"message"`
	Policy            string                          `json:"policy"`
	Binding           string                          `json:"binding"`
	ExpressionIndex   int                             `json:"expressionIndex"`
	ValidationActions []registration.ValidationAction `json:"validationActions"`
}

// conclude does what a binding says about a violation.
func (q *request) conclude(p *policy, b *binding, d decision) {
	policy, name := p.name, b.name
	for _, action := range b.actions {
		switch action {
		case registration.Deny:
			q.denials = append(q.denials, denial{policy, name, d.message, d.reason})
		case registration.Warn:
			if q.r.Warn != nil {
				q.r.Warn(fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", policy, name, d.message))
			}
		case registration.Audit:
			value, err := json.Marshal([]failure{{d.message, policy, name, d.index, b.actions}})
			if q.r.Annotate != nil && err == nil {
				q.r.Annotate("validation.policy.admission.k8s.io/validation_failure", string(value))
			}
		}
	}
}

// maxAnnotation bounds the value of an audit annotation, in bytes.
const maxAnnotation = 10 << 10

// annotations are the values of audit annotations that the bindings of a policy give.
type annotations map[string][]string

// add adds a value, unless the request's budget does not cover it: the request ends then.
func (a annotations) add(spent *budget.Budget, key, value string) {
	value = value[:min(len(value), maxAnnotation)]
	if spent.Product(len(a[key]), 1+len(value)/8) != nil || spent.Memory(2*len(value)) != nil {
		return
	}
	if !slices.Contains(a[key], value) {
		a[key] = append(a[key], value)
	}
}

func (a annotations) publish(r *admission.Request, policy string) {
	if r.Annotate == nil {
		return
	}
	for key, values := range a {
		r.Annotate(policy+"/"+key, strings.Join(values, ", "))
	}
}
