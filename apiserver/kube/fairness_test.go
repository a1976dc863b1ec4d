package kube_test

import (
	"math/rand"
	"testing"

	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestBootstrapFairness validates the objects that a cluster begins with, which
// defaults leave alone.
func TestBootstrapFairness(t *testing.T) {
	mandatory, suggested := objects.Mandatory(), objects.Suggested()
	check := func(plural, name string, object runtime.Object) {
		t.Helper()
		s, before := resource(plural).Strategy, object.DeepCopyObject()
		s.Default(object)
		kindtest.ExpectYAML(t, object, before)
		if errs := s.Validate(t.Context(), object); len(errs) > 0 {
			t.Errorf("Validate of %s %s = %v, want no errors", plural, name, errs)
		}
	}
	for _, l := range append(mandatory.Levels, suggested.Levels...) {
		check("prioritylevelconfigurations", l.Name, l)
	}
	for _, s := range append(mandatory.Schemas, suggested.Schemas...) {
		check("flowschemas", s.Name, s)
	}
}

// TestValidFairnessIsUsable makes objects at random: package objects can use each
// level that validation accepts and no level that it refuses, and so for schemas.
func TestValidFairnessIsUsable(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	some := func(values ...int32) int32 { return values[random.Intn(len(values))] }
	maybe := func(values ...int32) *int32 {
		if random.Intn(3) == 0 {
			return nil
		}
		return new(some(values...))
	}
	accepted, refused := 0, 0
	judge := func(plural string, object runtime.Object, usable bool, skipped []error) {
		t.Helper()
		s := resource(plural).Strategy
		errs := s.Validate(t.Context(), object)
		if len(errs) == 0 != usable {
			t.Errorf("validation says %v, objects.Config %v, of %+v", errs, skipped, object)
		}
		if usable {
			accepted++
		} else {
			refused++
		}
	}
	for range 4_000 {
		l := &flowcontrolv1.PriorityLevelConfiguration{}
		l.Name = []string{"exempt", "team"}[random.Intn(2)]
		l.Spec.Type = []flowcontrolv1.PriorityLevelEnablement{"Exempt", "Limited", "Limited", "Limited"}[random.Intn(4)]
		if (l.Spec.Type == "Exempt") != (random.Intn(20) == 0) {
			l.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: maybe(0, 5, -1), LendablePercent: maybe(0, 100, 101)}
		}
		if (l.Spec.Type == "Limited") != (random.Intn(20) == 0) {
			limited := &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: maybe(0, 5, 1<<31-1), LendablePercent: maybe(0, 100, 50), BorrowingLimitPercent: maybe(0, 7, 1<<31-1),
			}
			limited.LimitResponse.Type = []flowcontrolv1.LimitResponseType{"Queue", "Queue", "Reject"}[random.Intn(3)]
			if (limited.LimitResponse.Type == "Queue") != (random.Intn(20) == 0) {
				limited.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{
					Queues: some(0, 1, 8, 64, 1024, 10_000_000, 10_000_001, -1), HandSize: some(0, 1, 2, 6, 8, 15, 16), QueueLengthLimit: some(0, 1, 50, 1<<31-1, -3),
				}
			}
			l.Spec.Limited = limited
		}
		resource("prioritylevelconfigurations").Strategy.Default(l)
		_, skipped := objects.Config([]*flowcontrolv1.PriorityLevelConfiguration{l}, nil, 600)
		judge("prioritylevelconfigurations", l, len(skipped) == 0, skipped)

		s := &flowcontrolv1.FlowSchema{}
		s.Name = "team"
		s.Spec.PriorityLevelConfiguration.Name = "exempt"
		s.Spec.MatchingPrecedence = some(0, 1, 2, 10_000, 10_001, -1)
		list := func() []string {
			return [][]string{{"*"}, {"get"}, {"get", "list"}, {"get"}, {"list"}, {"list", "*"}, nil}[random.Intn(7)]
		}
		for range random.Intn(2) {
			rule := flowcontrolv1.PolicyRulesWithSubjects{Subjects: []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "jane"}}}}
			if random.Intn(2) == 0 {
				rule.ResourceRules = []flowcontrolv1.ResourcePolicyRule{{Verbs: list(), APIGroups: list(), Resources: list(), Namespaces: list(), ClusterScope: random.Intn(2) == 0}}
			}
			if random.Intn(2) == 0 {
				rule.NonResourceRules = []flowcontrolv1.NonResourcePolicyRule{{Verbs: list(), NonResourceURLs: [][]string{{"*"}, {"/a", "/b/*"}, nil}[random.Intn(3)]}}
			}
			s.Spec.Rules = append(s.Spec.Rules, rule)
		}
		resource("flowschemas").Strategy.Default(s)
		_, skipped = objects.Config(nil, []*flowcontrolv1.FlowSchema{s}, 600)
		judge("flowschemas", s, len(skipped) == 0, skipped)
	}
	if accepted < 500 || refused < 500 {
		t.Errorf("%d accepted, %d refused: the objects are too much alike", accepted, refused)
	}
}
