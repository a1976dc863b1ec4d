package fairness

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	"github.com/planekit/planekit/apiserver/kube"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/flowcontrol/internalbootstrap"
	"k8s.io/kubernetes/pkg/apis/flowcontrol/validation"
)

var scheme = internalbootstrap.NewAPFScheme()

func resource(plural string) apiserver.Resource {
	all := kube.Resources()
	return all[slices.IndexFunc(all, func(r apiserver.Resource) bool { return r.Plural == plural })]
}

// TestSameBootstrap: the mandatory and the suggested objects are those of Kubernetes.
func TestSameBootstrap(t *testing.T) {
	compare(t, "mandatory levels", objects.Mandatory().Levels, bootstrap.MandatoryPriorityLevelConfigurations)
	compare(t, "suggested levels", objects.Suggested().Levels, bootstrap.SuggestedPriorityLevelConfigurations)
	compare(t, "mandatory schemas", objects.Mandatory().Schemas, bootstrap.MandatoryFlowSchemas)
	compare(t, "suggested schemas", objects.Suggested().Schemas, bootstrap.SuggestedFlowSchemas)
}

func compare[T interface{ GetName() string }](t *testing.T, what string, ours, stock []T) {
	t.Helper()
	byName := func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) }
	ours, stock = slices.SortedFunc(slices.Values(ours), byName), slices.SortedFunc(slices.Values(stock), byName)
	if !equality.Semantic.DeepEqual(ours, stock) {
		t.Errorf("%s:\n%+v\nwant\n%+v", what, ours, stock)
	}
}

// random makes objects in which most is right and anything may be wrong.
type random struct{ *rand.Rand }

func pick[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

// seldom is true one time in n.
func (r random) seldom(n int) bool { return r.IntN(n) == 0 }

func (r random) number(right ...int32) int32 {
	if r.seldom(8) {
		return pick[int32](r, -1, 0, 1, 101, 10_001, 10_000_001, 1<<31-1, -1<<31)
	}
	return pick(r, right...)
}

func (r random) some(right ...int32) *int32 {
	if r.seldom(4) {
		return nil
	}
	return new(r.number(right...))
}

func (r random) list(right ...string) []string {
	var out []string
	for range r.IntN(3) + min(1, r.IntN(12)) {
		out = append(out, pick(r, right...))
	}
	if r.seldom(6) {
		out = append(out, pick(r, "*", "", "a.b", "eat", "/a*", "//", "a b", "/*/*"))
	}
	return out
}

func (r random) level() *flowcontrolv1.PriorityLevelConfiguration {
	out := &flowcontrolv1.PriorityLevelConfiguration{}
	out.Name = pick(r, "team", "team", "team", "exempt", "catch-all")
	if want := slices.IndexFunc(bootstrap.MandatoryPriorityLevelConfigurations, func(l *flowcontrolv1.PriorityLevelConfiguration) bool { return l.Name == out.Name }); want >= 0 && r.seldom(2) {
		out.Spec = *bootstrap.MandatoryPriorityLevelConfigurations[want].Spec.DeepCopy()
		if out.Spec.Exempt != nil {
			out.Spec.Exempt.NominalConcurrencyShares = r.some(0, 7)
		}
		return out
	}
	out.Spec.Type = pick[flowcontrolv1.PriorityLevelEnablement](r, "Limited", "Limited", "Limited", "Exempt", "", "Odd")
	if (out.Spec.Type == "Exempt") != r.seldom(8) {
		out.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: r.some(0, 7), LendablePercent: r.some(0, 100)}
	}
	if (out.Spec.Type == "Limited") != r.seldom(8) {
		limited := &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: r.some(0, 5), LendablePercent: r.some(0, 50, 100), BorrowingLimitPercent: r.some(0, 200),
		}
		limited.LimitResponse.Type = pick[flowcontrolv1.LimitResponseType](r, "Queue", "Queue", "Queue", "Reject", "", "Odd")
		if (limited.LimitResponse.Type == "Queue") != r.seldom(8) {
			limited.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{Queues: r.number(0, 1, 64, 128, 1024), HandSize: r.number(0, 1, 6, 8, 15), QueueLengthLimit: r.number(0, 50)}
		}
		out.Spec.Limited = limited
	}
	if r.seldom(8) {
		out.Annotations = map[string]string{"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares": ""}
	}
	for range r.IntN(3) {
		out.Status.Conditions = append(out.Status.Conditions, flowcontrolv1.PriorityLevelConfigurationCondition{Type: pick[flowcontrolv1.PriorityLevelConfigurationConditionType](r, "a", "b", "")})
	}
	return out
}

func (r random) schema() *flowcontrolv1.FlowSchema {
	out := &flowcontrolv1.FlowSchema{}
	out.Name = pick(r, "team", "team", "team", "exempt", "catch-all")
	if want := slices.IndexFunc(bootstrap.MandatoryFlowSchemas, func(s *flowcontrolv1.FlowSchema) bool { return s.Name == out.Name }); want >= 0 && r.seldom(2) {
		out.Spec = *bootstrap.MandatoryFlowSchemas[want].Spec.DeepCopy()
		return out
	}
	out.Spec.MatchingPrecedence = r.number(0, 2, 10_000)
	out.Spec.PriorityLevelConfiguration.Name = pick(r, "team", "exempt", "team", "", "A/b")
	if r.seldom(2) {
		out.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: pick[flowcontrolv1.FlowDistinguisherMethodType](r, "ByUser", "ByNamespace", "ByUser", "", "Odd")}
	}
	for range r.IntN(3) {
		var rule flowcontrolv1.PolicyRulesWithSubjects
		for range r.IntN(3) {
			s := flowcontrolv1.Subject{Kind: pick[flowcontrolv1.SubjectKind](r, "User", "Group", "ServiceAccount", "User", "Odd", "")}
			if (s.Kind == "User") != r.seldom(8) {
				s.User = &flowcontrolv1.UserSubject{Name: pick(r, "jane", "*", "")}
			}
			if (s.Kind == "Group") != r.seldom(8) {
				s.Group = &flowcontrolv1.GroupSubject{Name: pick(r, "all", "*", "")}
			}
			if (s.Kind == "ServiceAccount") != r.seldom(8) {
				s.ServiceAccount = &flowcontrolv1.ServiceAccountSubject{Namespace: pick(r, "team", "team", "*", "a.b", ""), Name: pick(r, "robot", "*", "A_", "a.b", "")}
			}
			rule.Subjects = append(rule.Subjects, s)
		}
		for range r.IntN(3) {
			rule.ResourceRules = append(rule.ResourceRules, flowcontrolv1.ResourcePolicyRule{
				Verbs: r.list("get", "list", "proxy"), APIGroups: r.list("", "apps"), Resources: r.list("pods", "pods/log"), Namespaces: r.list("team", "b"), ClusterScope: r.seldom(3),
			})
		}
		for range r.IntN(2) {
			rule.NonResourceRules = append(rule.NonResourceRules, flowcontrolv1.NonResourcePolicyRule{Verbs: r.list("get"), NonResourceURLs: r.list("/", "/a", "/b/*")})
		}
		out.Spec.Rules = append(out.Spec.Rules, rule)
	}
	for range r.IntN(3) {
		out.Status.Conditions = append(out.Status.Conditions, flowcontrolv1.FlowSchemaCondition{Type: pick[flowcontrolv1.FlowSchemaConditionType](r, "a", "Dangling", ""), Status: "True"})
	}
	return out
}

// problems are the errors in any order. Values that are structs have the field names
// of internal types in kube-apiserver and are left out.
func problems(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		value := fmt.Sprint(err.BadValue)
		if v := reflect.Indirect(reflect.ValueOf(err.BadValue)); v.Kind() == reflect.Struct {
			value = ""
		}
		out = append(out, fmt.Sprintf("%s: %s: %s: %s", err.Field, err.Type, value, err.Detail))
	}
	slices.Sort(out)
	return out
}

// TestSameProblems defaults and validates random objects on both sides.
func TestSameProblems(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	valid := map[string]int{}
	judge := func(plural string, ours runtime.Object, internal runtime.Object, validate func() field.ErrorList) {
		t.Helper()
		stock, strategy := ours.DeepCopyObject(), resource(plural).Strategy
		strategy.Default(ours)
		scheme.Default(stock)
		if !equality.Semantic.DeepEqual(ours, stock) {
			t.Fatalf("%s: defaulted\n%+v\nwant\n%+v", plural, ours, stock)
		}
		if err := scheme.Convert(stock, internal, nil); err != nil {
			t.Fatal(err)
		}
		want := validate()
		// The server validates metadata, for all kinds alike.
		want = slices.DeleteFunc(want, func(e *field.Error) bool {
			return strings.HasPrefix(e.Field, "metadata") && !strings.HasPrefix(e.Field, "metadata.annotations")
		})
		if a, b := problems(strategy.Validate(t.Context(), ours)), problems(want); !slices.Equal(a, b) {
			t.Errorf("%s %+v\nhave\n%s\nwant\n%s", plural, ours, strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
		if len(want) == 0 {
			valid[plural]++
		}
	}
	const rounds = 20_000
	for range rounds {
		level := &flowcontrol.PriorityLevelConfiguration{}
		judge("prioritylevelconfigurations", r.level(), level, func() field.ErrorList {
			return validation.ValidatePriorityLevelConfiguration(level, flowcontrolv1.SchemeGroupVersion, validation.PriorityLevelValidationOptions{})
		})
		schema := &flowcontrol.FlowSchema{}
		judge("flowschemas", r.schema(), schema, func() field.ErrorList { return validation.ValidateFlowSchema(schema) })
		if t.Failed() {
			return
		}
	}
	for plural, n := range valid {
		if n < rounds/20 || n > rounds*19/20 {
			t.Errorf("%d of %d %s are valid, so that the test shows little", n, rounds, plural)
		}
	}
	t.Logf("valid: %v of %d", valid, rounds)
}
