package flowcontrol

import (
	"fmt"
	"math"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The defaults and bounds of priority levels.
const (
	defaultShares      = 30
	defaultQueues      = 64
	defaultHandSize    = 8
	defaultQueueLength = 50
	maxQueues          = 10_000_000
	// maxHandBits is the number of bits of a flow's hash that pick its queues.
	maxHandBits = 60
)

// zeroSharesAnnotation kept zero shares in version v1beta3, which is not served.
const zeroSharesAnnotation = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

// PriorityLevelConfigurations returns the resource of the kind PriorityLevelConfiguration.
func PriorityLevelConfigurations() apiserver.Resource {
	type level = flowcontrolv1.PriorityLevelConfiguration
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	queueColumn := func(name, doc string, value func(*flowcontrolv1.QueuingConfiguration) int32) apiserver.Column {
		return optionalCount(name, queuing[doc], func(l *level) *int32 {
			if l.Spec.Limited == nil || l.Spec.Limited.LimitResponse.Queuing == nil {
				return nil
			}
			return new(value(l.Spec.Limited.LimitResponse.Queuing))
		})
	}
	return apiserver.For(kinds.PriorityLevelConfigurations, apiserver.Resource{
		Strategy: define.Strategy[*level]{
			Counted:        func(l *level) any { return &l.Spec },
			Default:        completePriorityLevel,
			Create:         func(l *level) { l.Status = flowcontrolv1.PriorityLevelConfigurationStatus{} },
			Update:         func(l, old *level) { old.Status.DeepCopyInto(&l.Status) },
			Validate:       validatePriorityLevel,
			ValidateUpdate: func(l, _ *level) field.ErrorList { return validatePriorityLevel(l) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"], func(l *level) string { return string(l.Spec.Type) }),
			optionalCount("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"], func(l *level) *int32 {
				if l.Spec.Limited == nil {
					return nil
				}
				return new(optional.Deref(l.Spec.Limited.NominalConcurrencyShares))
			}),
			queueColumn("Queues", "queues", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.Queues }),
			queueColumn("HandSize", "handSize", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.HandSize }),
			queueColumn("QueueLengthLimit", "queueLengthLimit", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.QueueLengthLimit }),
			column.Age[*level](),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*level]{
				Update: func(l, old *level) {
					keepMetadata(&l.ObjectMeta, &old.ObjectMeta)
					old.Spec.DeepCopyInto(&l.Spec)
				},
				ValidateUpdate: func(l, _ *level) field.ErrorList {
					var ps check.Problems
					checkPriorityLevelStatus(&ps, &l.Status)
					return ps.List
				},
			}, "metadata", "spec"),
		},
	})
}

// optionalCount returns a column of numbers that may be missing, which Kubernetes declares as text.
func optionalCount[T runtime.Object](name, description string, value func(T) *int32) apiserver.Column {
	c := column.Text(name, description, func(T) string { return "" })
	c.Value = func(obj runtime.Object) any {
		if n := value(obj.(T)); n != nil {
			return int64(*n)
		}
		return column.None
	}
	return c
}

func completePriorityLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if e := l.Spec.Exempt; e != nil {
		optional.SetIfNil(&e.NominalConcurrencyShares, 0)
		optional.SetIfNil(&e.LendablePercent, 0)
	}
	limited := l.Spec.Limited
	if limited == nil {
		return
	}
	optional.SetIfNil(&limited.NominalConcurrencyShares, defaultShares)
	optional.SetIfNil(&limited.LendablePercent, 0)
	if q := limited.LimitResponse.Queuing; q != nil {
		optional.SetIfEmpty(&q.HandSize, defaultHandSize)
		optional.SetIfEmpty(&q.Queues, defaultQueues)
		optional.SetIfEmpty(&q.QueueLengthLimit, defaultQueueLength)
	}
}

func validatePriorityLevel(l *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var ps check.Problems
	_, marked := l.Annotations[zeroSharesAnnotation]
	ps.Allowed(!marked, field.NewPath("metadata", "annotations"), fmt.Sprintf("annotation '%s' is forbidden", zeroSharesAnnotation))
	p, s := field.NewPath("spec"), &l.Spec
	exempt := s.Type == flowcontrolv1.PriorityLevelEnablementExempt
	ps.Valid((l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) == exempt, p.Child("type"), s.Type,
		"must be 'Exempt' if and only if `name` is 'exempt'")
	if check.RequiredOneOf(&ps, p.Child("type"), s.Type, flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited); exempt {
		ps.Allowed(s.Limited == nil, p.Child("limited"), "must be nil if the type is not Limited")
		if s.Exempt != nil {
			checkShares(&ps, p.Child("exempt"), s.Exempt.NominalConcurrencyShares, s.Exempt.LendablePercent)
		}
	} else if s.Type == flowcontrolv1.PriorityLevelEnablementLimited {
		ps.Allowed(s.Exempt == nil, p.Child("exempt"), "must be nil if the type is Limited")
		ps.Present(s.Limited != nil, p.Child("limited"), "must not be empty when type is Limited")
		if s.Limited != nil {
			checkLimited(&ps, p.Child("limited"), s.Limited)
		}
	}
	checkMandatoryLevel(&ps, p, l)
	checkPriorityLevelStatus(&ps, &l.Status)
	return ps.List
}

// checkMandatoryLevel keeps the specs of mandatory levels as they are, but for
// spec.exempt.
func checkMandatoryLevel(ps *check.Problems, p *field.Path, l *flowcontrolv1.PriorityLevelConfiguration) {
	for _, mandatory := range mandatoryFairness().Levels {
		if mandatory.Name != l.Name {
			continue
		}
		have, message := l.Spec, "spec of '%s' must equal the fixed value"
		if l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			have.Exempt, message = mandatory.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		ps.Valid(equality.Semantic.DeepEqual(have, mandatory.Spec), p, l.Spec, fmt.Sprintf(message, l.Name))
	}
}

func checkPriorityLevelStatus(ps *check.Problems, s *flowcontrolv1.PriorityLevelConfigurationStatus) {
	var types []string
	for _, c := range s.Conditions {
		types = append(types, string(c.Type))
	}
	checkConditionTypes(ps, types)
}

func checkShares(ps *check.Problems, p *field.Path, shares, lendable *int32) {
	ps.Valid(optional.Deref(shares) >= 0, p.Child("nominalConcurrencyShares"), optional.Deref(shares), "must be a non-negative integer")
	ps.Valid(optional.Deref(lendable) >= 0 && optional.Deref(lendable) <= 100, p.Child("lendablePercent"), optional.Deref(lendable), "must be between 0 and 100, inclusive")
}

func checkLimited(ps *check.Problems, p *field.Path, l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
	checkShares(ps, p, l.NominalConcurrencyShares, l.LendablePercent)
	ps.Valid(optional.Deref(l.BorrowingLimitPercent) >= 0, p.Child("borrowingLimitPercent"), optional.Deref(l.BorrowingLimitPercent), "if specified, must be a non-negative integer")
	p, r := p.Child("limitResponse"), &l.LimitResponse
	check.RequiredOneOf(ps, p.Child("type"), r.Type, flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		ps.Allowed(r.Queuing == nil, p.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited")
	case flowcontrolv1.LimitResponseTypeQueue:
		ps.Present(r.Queuing != nil, p.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited")
		if r.Queuing != nil {
			checkQueuing(ps, p.Child("queuing"), r.Queuing)
		}
	}
}

func checkQueuing(ps *check.Problems, p *field.Path, q *flowcontrolv1.QueuingConfiguration) {
	ps.Valid(q.QueueLengthLimit > 0, p.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive")
	ps.Valid(q.Queues > 0, p.Child("queues"), q.Queues, "must be positive")
	ps.Valid(q.Queues <= maxQueues, p.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues))
	hand := p.Child("handSize")
	switch bits := int(math.Ceil(math.Log2(float64(q.Queues)) * float64(q.HandSize))); {
	case q.HandSize <= 0:
		ps.Add(field.Invalid(hand, q.HandSize, "must be positive"))
	case q.HandSize > q.Queues:
		ps.Add(field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	case bits > maxHandBits:
		ps.Add(field.Invalid(hand, q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
			q.Queues, q.HandSize, maxHandBits)))
	}
}
