package main

import (
	"net/http"
	"testing"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFairnessObjects: a cluster that is ready has the objects of flow control,
// requests are handled as users configure them, mandatory objects come back, and a
// restart keeps what a user has kept.
func TestFairnessObjects(t *testing.T) {
	dir := t.TempDir()
	cluster := start(t, dir, "--nodes", "0")
	api, ctx := cluster.client(t), t.Context()
	levels, schemas := typed.PriorityLevelConfigurations(api), typed.FlowSchemas(api)
	allLevels, _, err := levels.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allSchemas, _, err := schemas.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(allLevels) != 8 || len(allSchemas) != 11 {
		t.Errorf("%d levels and %d schemas", len(allLevels), len(allSchemas))
	}
	if m := allSchemas[0].ManagedFields; len(m) == 0 || m[0].Manager != "api-priority-and-fairness-config-producer-v1" {
		t.Errorf("managed by %+v", m)
	}

	// A schema of a user, and then the level that it names.
	team := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type:    flowcontrolv1.PriorityLevelEnablementLimited,
		Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}},
	}}
	jane := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "jane"}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "team"}, MatchingPrecedence: 50,
		Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
			Subjects:         []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "jane"}}},
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/version"}}},
		}},
	}}
	if jane, err = schemas.Create(ctx, jane); err != nil {
		t.Fatal(err)
	}
	dangling := func(want flowcontrolv1.ConditionStatus) func() bool {
		return func() bool {
			s, err := schemas.Get(ctx, "", "jane")
			return err == nil && len(s.Status.Conditions) == 1 && s.Status.Conditions[0].Status == want
		}
	}
	eventually(t, "the schema is said to dangle", dangling(flowcontrolv1.ConditionTrue))
	if _, err := levels.Create(ctx, team); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the schema is said not to dangle", dangling(flowcontrolv1.ConditionFalse))
	eventually(t, "requests are of the schema", func() bool { return cluster.schemaOf(t, "jane") == string(jane.UID) })

	if err := schemas.Delete(ctx, "", "catch-all", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a mandatory schema comes back", func() bool {
		_, err := schemas.Get(ctx, "", "catch-all")
		return err == nil
	})
	low, err := levels.Get(ctx, "", "workload-low")
	if err != nil {
		t.Fatal(err)
	}
	low.Spec.Limited.NominalConcurrencyShares = new(int32(7))
	low.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "false"
	if _, err := levels.Update(ctx, low); err != nil {
		t.Fatal(err)
	}
	exempt, err := levels.Get(ctx, "", "exempt")
	if err != nil {
		t.Fatal(err)
	}
	exempt.Spec.Type = flowcontrolv1.PriorityLevelEnablementLimited
	if _, err := levels.Update(ctx, exempt); !apierrors.IsInvalid(err) {
		t.Errorf("the mandatory level may be changed: %v", err)
	}

	cluster.stop()
	api = start(t, dir, "--nodes", "0").client(t)
	if low, err = typed.PriorityLevelConfigurations(api).Get(ctx, "", "workload-low"); err != nil || *low.Spec.Limited.NominalConcurrencyShares != 7 {
		t.Errorf("after a restart the level is %+v, %v", low, err)
	}
}

// schemaOf returns the UID of the schema of a request that the admin makes as user.
func (r *running) schemaOf(t *testing.T, user string) string {
	t.Helper()
	config, err := kubeconfig.Load(r.config)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Client("")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: c.TLS}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Server+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Impersonate-User", user)
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID")
}

// TestNoFairness checks that the objects are not made without priority and fairness.
func TestNoFairness(t *testing.T) {
	api := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0", "--enable-priority-and-fairness=false").client(t)
	found, _, err := typed.FlowSchemas(api).List(t.Context(), "", metav1.ListOptions{})
	if err != nil || len(found) > 0 {
		t.Errorf("%d schemas, %v", len(found), err)
	}
}
