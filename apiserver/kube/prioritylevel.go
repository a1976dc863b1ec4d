package kube

import (
	"fmt"
	"math"

	"github.com/planekit/planekit/apiserver"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// maxHandBits is how many bits of a flow's hash pick its queues.
	maxHandBits = 60
)

// zeroSharesAnnotation kept zero shares in version v1beta3, which is not served.
const zeroSharesAnnotation = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

func priorityLevels() apiserver.Resource {
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
	return apiserver.Resource{
		Group:   flowcontrolv1.GroupName,
		Version: "v1",
		Kind:    "PriorityLevelConfiguration",
		Plural:  "prioritylevelconfigurations",
		New:     func() runtime.Object { return &level{} },
		NewList: func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },
		Strategy: strategy[*level]{
			complete: completePriorityLevel,
			create: func(l *level) {
				l.Status = flowcontrolv1.PriorityLevelConfigurationStatus{}
				l.Generation = 1
			},
			update: func(l, old *level) {
				old.Status.DeepCopyInto(&l.Status)
				l.Generation = nextGeneration(old.Generation, differ(&l.Spec, &old.Spec))
			},
			validate:       validatePriorityLevel,
			validateUpdate: func(l, _ *level) field.ErrorList { return validatePriorityLevel(l) },
		}.erase(),
		Columns: []apiserver.Column{
			text("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"], func(l *level) string { return string(l.Spec.Type) }),
			optionalCount("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"], func(l *level) *int32 {
				if l.Spec.Limited == nil {
					return nil
				}
				return new(deref(l.Spec.Limited.NominalConcurrencyShares))
			}),
			queueColumn("Queues", "queues", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.Queues }),
			queueColumn("HandSize", "handSize", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.HandSize }),
			queueColumn("QueueLengthLimit", "queueLengthLimit", func(q *flowcontrolv1.QueuingConfiguration) int32 { return q.QueueLengthLimit }),
			age[*level](),
		},
		Subresources: []apiserver.Subresource{
			status(strategy[*level]{
				update: func(l, old *level) {
					metav1.ResetObjectMetaForStatus(&l.ObjectMeta, &old.ObjectMeta)
					old.Spec.DeepCopyInto(&l.Spec)
				},
				validateUpdate: func(l, _ *level) field.ErrorList {
					var ps problems
					checkPriorityLevelStatus(&ps, &l.Status)
					return ps.list
				},
			}, "metadata", "spec"),
		},
	}
}

// optionalCount is a column of numbers that may be missing. Upstream declares it as
// text.
func optionalCount[T runtime.Object](name, description string, value func(T) *int32) apiserver.Column {
	c := text(name, description, func(T) string { return "" })
	c.Value = func(obj runtime.Object) any {
		if n := value(obj.(T)); n != nil {
			return int64(*n)
		}
		return none
	}
	return c
}

func completePriorityLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if e := l.Spec.Exempt; e != nil {
		setIfNil(&e.NominalConcurrencyShares, 0)
		setIfNil(&e.LendablePercent, 0)
	}
	limited := l.Spec.Limited
	if limited == nil {
		return
	}
	setIfNil(&limited.NominalConcurrencyShares, defaultShares)
	setIfNil(&limited.LendablePercent, 0)
	if q := limited.LimitResponse.Queuing; q != nil {
		setIfEmpty(&q.HandSize, defaultHandSize)
		setIfEmpty(&q.Queues, defaultQueues)
		setIfEmpty(&q.QueueLengthLimit, defaultQueueLength)
	}
}

func validatePriorityLevel(l *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var ps problems
	_, marked := l.Annotations[zeroSharesAnnotation]
	ps.allowed(!marked, field.NewPath("metadata", "annotations"), fmt.Sprintf("annotation '%s' is forbidden", zeroSharesAnnotation))
	p, s := field.NewPath("spec"), &l.Spec
	exempt := s.Type == flowcontrolv1.PriorityLevelEnablementExempt
	ps.valid((l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) == exempt, p.Child("type"), s.Type,
		"must be 'Exempt' if and only if `name` is 'exempt'")
	if someOf(&ps, p.Child("type"), s.Type, flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited); exempt {
		ps.allowed(s.Limited == nil, p.Child("limited"), "must be nil if the type is not Limited")
		if s.Exempt != nil {
			checkShares(&ps, p.Child("exempt"), s.Exempt.NominalConcurrencyShares, s.Exempt.LendablePercent)
		}
	} else if s.Type == flowcontrolv1.PriorityLevelEnablementLimited {
		ps.allowed(s.Exempt == nil, p.Child("exempt"), "must be nil if the type is Limited")
		ps.present(s.Limited != nil, p.Child("limited"), "must not be empty when type is Limited")
		if s.Limited != nil {
			checkLimited(&ps, p.Child("limited"), s.Limited)
		}
	}
	checkMandatoryLevel(&ps, p, l)
	checkPriorityLevelStatus(&ps, &l.Status)
	return ps.list
}

// checkMandatoryLevel keeps the specs of mandatory levels as they are, but for
// spec.exempt.
func checkMandatoryLevel(ps *problems, p *field.Path, l *flowcontrolv1.PriorityLevelConfiguration) {
	for _, mandatory := range mandatoryFairness().Levels {
		if mandatory.Name != l.Name {
			continue
		}
		have, message := l.Spec, "spec of '%s' must equal the fixed value"
		if l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			have.Exempt, message = mandatory.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		ps.valid(equality.Semantic.DeepEqual(have, mandatory.Spec), p, l.Spec, fmt.Sprintf(message, l.Name))
	}
}

func checkPriorityLevelStatus(ps *problems, s *flowcontrolv1.PriorityLevelConfigurationStatus) {
	var types []string
	for _, c := range s.Conditions {
		types = append(types, string(c.Type))
	}
	checkConditionTypes(ps, types)
}

func checkShares(ps *problems, p *field.Path, shares, lendable *int32) {
	ps.valid(deref(shares) >= 0, p.Child("nominalConcurrencyShares"), deref(shares), "must be a non-negative integer")
	ps.valid(deref(lendable) >= 0 && deref(lendable) <= 100, p.Child("lendablePercent"), deref(lendable), "must be between 0 and 100, inclusive")
}

func checkLimited(ps *problems, p *field.Path, l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
	checkShares(ps, p, l.NominalConcurrencyShares, l.LendablePercent)
	ps.valid(deref(l.BorrowingLimitPercent) >= 0, p.Child("borrowingLimitPercent"), deref(l.BorrowingLimitPercent), "if specified, must be a non-negative integer")
	p, r := p.Child("limitResponse"), &l.LimitResponse
	someOf(ps, p.Child("type"), r.Type, flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		ps.allowed(r.Queuing == nil, p.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited")
	case flowcontrolv1.LimitResponseTypeQueue:
		ps.present(r.Queuing != nil, p.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited")
		if r.Queuing != nil {
			checkQueuing(ps, p.Child("queuing"), r.Queuing)
		}
	}
}

func checkQueuing(ps *problems, p *field.Path, q *flowcontrolv1.QueuingConfiguration) {
	ps.valid(q.QueueLengthLimit > 0, p.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive")
	ps.valid(q.Queues > 0, p.Child("queues"), q.Queues, "must be positive")
	ps.valid(q.Queues <= maxQueues, p.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues))
	hand := p.Child("handSize")
	switch bits := int(math.Ceil(math.Log2(float64(q.Queues)) * float64(q.HandSize))); {
	case q.HandSize <= 0:
		ps.add(field.Invalid(hand, q.HandSize, "must be positive"))
	case q.HandSize > q.Queues:
		ps.add(field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	case bits > maxHandBits:
		ps.add(field.Invalid(hand, q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
			q.Queues, q.HandSize, maxHandBits)))
	}
}
