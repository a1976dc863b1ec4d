package objects_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// objectsOf writes the parts of a configuration as text, without UIDs.
func objectsOf(c flowcontrol.Config) (levels, schemas []string) {
	for _, l := range c.Levels {
		borrow := "any"
		if p := l.BorrowingLimitPercent; p != nil {
			borrow = fmt.Sprint(*p)
		}
		l.BorrowingLimitPercent, l.UID = nil, ""
		levels = append(levels, fmt.Sprintf("%+v %s", l, borrow))
	}
	for _, s := range c.Schemas {
		s.UID = ""
		schemas = append(schemas, fmt.Sprintf("%+v", s))
	}
	return levels, schemas
}

// TestRoundTrip: the bootstrap objects are the configuration that they are made of.
func TestRoundTrip(t *testing.T) {
	mandatory, suggested := objects.Mandatory(), objects.Suggested()
	config, skipped := objects.Config(append(mandatory.Levels, suggested.Levels...), append(mandatory.Schemas, suggested.Schemas...), 600)
	if len(skipped) > 0 || !sameConfig(config, flowcontrol.Default(600)) {
		t.Errorf("Config(mandatory and suggested) = %+v, skipping %v, want nothing skipped and %+v",
			config, skipped, flowcontrol.Default(600))
	}
	if config, skipped = objects.Config(nil, nil, 600); len(skipped) > 0 || !sameConfig(config, flowcontrol.Mandatory(600)) {
		t.Errorf("Config(nil, nil) = %+v, skipping %v, want nothing skipped and %+v", config, skipped, flowcontrol.Mandatory(600))
	}
	for _, l := range append(mandatory.Levels, suggested.Levels...) {
		if l.Annotations["apf.kubernetes.io/autoupdate-spec"] != "true" {
			t.Errorf("%s has annotations %v", l.Name, l.Annotations)
		}
	}
}

// TestOrderDoesNotMatter: equal objects are equal configurations.
func TestOrderDoesNotMatter(t *testing.T) {
	s := objects.Suggested()
	first, _ := objects.Config(s.Levels, s.Schemas, 600)
	slices.Reverse(s.Levels)
	slices.Reverse(s.Schemas)
	if second, _ := objects.Config(s.Levels, s.Schemas, 600); !reflect.DeepEqual(first, second) {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// TestUIDs: the configuration has the UIDs of the objects, and none where a mandatory
// object is missing.
func TestUIDs(t *testing.T) {
	l, s := newLevel("team"), newSchema("team", "team")
	l.UID, s.UID = "u1", "u2"
	config, _ := objects.Config([]*level{l}, []*flowSchema{s}, 600)
	for _, l := range config.Levels {
		if want := map[string]string{"team": "u1"}[l.Name]; l.UID != want {
			t.Errorf("level %s has UID %q, want %q", l.Name, l.UID, want)
		}
	}
	for _, s := range config.Schemas {
		if want := map[string]string{"team": "u2"}[s.Name]; s.UID != want {
			t.Errorf("schema %s has UID %q, want %q", s.Name, s.UID, want)
		}
	}
}

// TestSkipped: what is not valid is left out by name and field, and the rest stays.
func TestSkipped(t *testing.T) {
	queued := func() *level {
		l := newLevel("broken")
		l.Spec.Limited.LimitResponse = flowcontrolv1.LimitResponse{Type: "Queue", Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 8, HandSize: 2, QueueLengthLimit: 5}}
		return l
	}
	for want, change := range map[string]func(*level){
		"prioritylevelconfigurations/broken: spec.type: \"Free\"":                                func(l *level) { l.Spec.Type = "Free" },
		"prioritylevelconfigurations/broken: spec.limited: required":                             func(l *level) { l.Spec.Limited = nil },
		"prioritylevelconfigurations/broken: spec.exempt: must be absent":                        func(l *level) { l.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{} },
		"prioritylevelconfigurations/broken: spec.limited: must be absent":                       func(l *level) { l.Spec.Type = "Exempt" },
		"prioritylevelconfigurations/broken: exempt: must be true":                               func(l *level) { l.Spec.Type, l.Spec.Limited = "Exempt", nil },
		"prioritylevelconfigurations/broken: spec.limited.nominalConcurrencyShares: required":    func(l *level) { l.Spec.Limited.NominalConcurrencyShares = nil },
		"prioritylevelconfigurations/broken: shares: -1":                                         func(l *level) { l.Spec.Limited.NominalConcurrencyShares = new(int32(-1)) },
		"prioritylevelconfigurations/broken: borrowingLimitPercent: -1":                          func(l *level) { l.Spec.Limited.BorrowingLimitPercent = new(int32(-1)) },
		"prioritylevelconfigurations/broken: spec.limited.limitResponse.type: \"\"":              func(l *level) { l.Spec.Limited.LimitResponse.Type = "" },
		"prioritylevelconfigurations/broken: spec.limited.limitResponse.queuing: must be absent": func(l *level) { l.Spec.Limited.LimitResponse.Type = "Reject" },
		"prioritylevelconfigurations/broken: spec.limited.limitResponse.queuing: required":       func(l *level) { l.Spec.Limited.LimitResponse.Queuing = nil },
		"prioritylevelconfigurations/broken: spec.limited.limitResponse.queuing.queues: 0":       func(l *level) { *l.Spec.Limited.LimitResponse.Queuing = flowcontrolv1.QueuingConfiguration{} },
		"prioritylevelconfigurations/broken: handSize: 9":                                        func(l *level) { l.Spec.Limited.LimitResponse.Queuing.HandSize = 9 },
		"prioritylevelconfigurations/good: metadata.name: not unique":                            func(l *level) { l.Name = "good" },
	} {
		broken := queued()
		change(broken)
		dangling := newSchema("dangling", "broken")
		config, skipped := objects.Config([]*level{newLevel("good"), broken}, []*flowSchema{dangling, newSchema("fine", "good")}, 600)
		if len(skipped) != 1 || !strings.HasPrefix(skipped[0].Error(), want) {
			t.Errorf("%v, want %s", skipped, want)
		}
		if len(config.Levels) != 3 || len(config.Schemas) != 3 || config.Validate() != nil {
			t.Errorf("%s: configuration %+v", want, config)
		}
	}
	for want, change := range map[string]func(*flowcontrolv1.FlowSchemaSpec){
		"spec.distinguisherMethod.type: \"ByMood\"": func(s *flowcontrolv1.FlowSchemaSpec) {
			s.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: "ByMood"}
		},
		"precedence: 0":                    func(s *flowcontrolv1.FlowSchemaSpec) { s.MatchingPrecedence = 0 },
		"spec.rules[1].subjects[0]: ":      func(s *flowcontrolv1.FlowSchemaSpec) { s.Rules[1].Subjects[0].User = nil },
		"rules[1].resources[0].verbs: at ": func(s *flowcontrolv1.FlowSchemaSpec) { s.Rules[1].ResourceRules[0].Verbs = nil },
	} {
		broken := newSchema("broken", "good")
		user := flowcontrolv1.Subject{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "jane"}}
		for range 2 {
			broken.Spec.Rules = append(broken.Spec.Rules, flowcontrolv1.PolicyRulesWithSubjects{
				Subjects: []flowcontrolv1.Subject{user}, ResourceRules: objects.Mandatory().Schemas[0].Spec.Rules[0].ResourceRules,
			})
		}
		change(&broken.Spec)
		config, skipped := objects.Config([]*level{newLevel("good")}, []*flowSchema{broken, newSchema("fine", "good")}, 600)
		if len(skipped) != 1 || !strings.HasPrefix(skipped[0].Error(), "flowschemas/broken: "+want) {
			t.Errorf("%v, want %s", skipped, want)
		}
		if len(config.Schemas) != 3 || config.Validate() != nil {
			t.Errorf("%s: configuration %+v", want, config)
		}
	}
}

// TestMandatoryStandIn: where a mandatory object is broken or refers to nothing, the
// one of flowcontrol.Mandatory stands in.
func TestMandatoryStandIn(t *testing.T) {
	catchAll := newLevel("catch-all")
	catchAll.Spec.Limited = nil
	exempt := newSchema("exempt", "nowhere")
	config, skipped := objects.Config([]*level{catchAll}, []*flowSchema{exempt}, 600)
	if len(skipped) != 1 || !sameConfig(config, flowcontrol.Mandatory(600)) {
		t.Errorf("Config(a broken catch-all, a stray exempt) = %+v, skipping %v, want one skipped and %+v",
			config, skipped, flowcontrol.Mandatory(600))
	}
}
