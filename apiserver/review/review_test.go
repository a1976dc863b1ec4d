package review_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

func authenticate(r *http.Request) (*user.Info, bool, error) {
	switch r.Header.Get("Authorization") {
	case "Bearer good":
		return &user.Info{Name: "jane", UID: "7", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}, true, nil
	case "Bearer bad":
		return nil, false, errors.New("expired")
	}
	return &user.Info{Name: user.Anonymous}, true, nil
}

// authorize lets jane and the group dev list pods in namespace a.
func authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	switch {
	case a.Verb == "create" || a.User.Name == "admin":
		return authz.Allow, "", nil
	case a.Verb == "break":
		return authz.NoOpinion, "", errors.New("no rules")
	case a.Verb == "tell":
		return authz.NoOpinion, fmt.Sprint(a.Fields, a.Labels), nil
	case a.Verb == "deny":
		return authz.Deny, "never", nil
	case (a.User.Name == "jane" || a.User.In("dev")) && a.Verb == "list" && a.Resource == "pods" && a.Namespace == "a", a.Path == "/healthz":
		return authz.Allow, "because", nil
	}
	return authz.NoOpinion, "", nil
}

func Example() {
	resources := review.Resources(authn.Func(authenticate), authz.Func(authorize))
	for _, r := range resources {
		fmt.Println(r.Group, r.Kind)
	}
	// Output:
	// authorization.k8s.io SelfSubjectAccessReview
	// authorization.k8s.io SubjectAccessReview
	// authorization.k8s.io LocalSubjectAccessReview
	// authorization.k8s.io SelfSubjectRulesReview
	// authentication.k8s.io SelfSubjectReview
	// authentication.k8s.io TokenReview
}

func TestReviews(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Resources = review.Resources(authn.Func(authenticate), authz.Func(authorize))
		c.Authorizer = authz.Func(authorize)
	}))
	const access, identity = "/apis/authorization.k8s.io/v1/", "/apis/authentication.k8s.io/v1/"
	for _, c := range []struct {
		name, path, spec string
		code             int
		want             string
	}{
		{"mine", access + "selfsubjectaccessreviews", `{"resourceAttributes":{"verb":"list","resource":"pods","namespace":"a"}}`, 201, `{"allowed":true,"reason":"because"}`},
		{"not mine", access + "selfsubjectaccessreviews", `{"resourceAttributes":{"verb":"list","resource":"pods","namespace":"b"}}`, 201, `{"allowed":false}`},
		{"denied", access + "selfsubjectaccessreviews", `{"resourceAttributes":{"verb":"deny"}}`, 201, `{"allowed":false,"denied":true,"reason":"never"}`},
		{"undecided", access + "selfsubjectaccessreviews", `{"resourceAttributes":{"verb":"break"}}`, 201, `{"allowed":false,"evaluationError":"no rules"}`},
		{"path", access + "selfsubjectaccessreviews", `{"nonResourceAttributes":{"verb":"get","path":"/healthz"}}`, 201, `{"allowed":true,"reason":"because"}`},
		{"both", access + "selfsubjectaccessreviews", `{"resourceAttributes":{"verb":"list"},"nonResourceAttributes":{"verb":"get"}}`, 422, `spec.nonResourceAttributes: Invalid value: {\"Path\":\"\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes`},
		{"neither", access + "selfsubjectaccessreviews", `{}`, 422, `\"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified`},
		{"another's", access + "subjectaccessreviews", `{"user":"joe","groups":["dev"],"extra":{"k":["v"]},"resourceAttributes":{"verb":"list","resource":"pods","namespace":"a"}}`, 201, `{"allowed":true,"reason":"because"}`},
		{"nobody's", access + "subjectaccessreviews", `{"resourceAttributes":{"verb":"list"}}`, 422, `spec.user: Invalid value: \"\": at least one of user or group must be specified`},
		{"selector without form", access + "subjectaccessreviews", `{"user":"a","resourceAttributes":{"verb":"list","labelSelector":{}}}`, 422, "spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required"},
		{"selector in both forms", access + "subjectaccessreviews", `{"user":"a","resourceAttributes":{"verb":"list","fieldSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"New"}]}}}`, 422, `spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements"`},
		{"bad requirements", access + "subjectaccessreviews", `{"user":"a","resourceAttributes":{"verb":"list","fieldSelector":{"requirements":[{"operator":"In","values":["a"]}]},"labelSelector":{"requirements":[{"key":"a","operator":"In"}]}}}`, 422, "[spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified, spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn']"},
		{"selectors", access + "subjectaccessreviews", `{"user":"a","resourceAttributes":{"verb":"tell","fieldSelector":{"rawSelector":"a=b,c!=d"},"labelSelector":{"requirements":[{"key":"e","operator":"In","values":["g","f"]},{"key":"h","operator":"Exists"}]}}}`, 201, `{"allowed":false,"reason":"[{a In [b]} {c NotIn [d]}] [{e In [f g]} {h Exists []}]"}`},
		{"selectors that can be read in part", access + "subjectaccessreviews", `{"user":"a","resourceAttributes":{"verb":"tell","fieldSelector":{"requirements":[{"key":"a","operator":"New"},{"key":"b","operator":"NotIn","values":["c"]},{"key":"d","operator":"Exists"}]},"labelSelector":{"requirements":[{"key":"e","operator":"New"}]}}}`, 201, `{"allowed":false,"reason":"[{b NotIn [c]}] []","evaluationError":"spec.resourceAttributes.fieldSelector partially ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"}`},
		{"selectors that cannot be read", access + "subjectaccessreviews", `{"user":"a","resourceAttributes":{"verb":"break","fieldSelector":{"rawSelector":"a"},"labelSelector":{"rawSelector":"a in"}}}`, 201, `{"allowed":false,"evaluationError":"no rules; spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"}`},
		{"local path", access + "namespaces/a/localsubjectaccessreviews", `{"user":"jane","nonResourceAttributes":{"verb":"get","path":"/a"}}`, 422, `spec.nonResourceAttributes: Invalid value: {\"Path\":\"/a\",\"Verb\":\"get\"}: disallowed on this kind of request`},
		{"my rules, of none", access + "selfsubjectrulesreviews", `{}`, 400, "no namespace on request"},
		{"my rules, not to be listed", access + "selfsubjectrulesreviews", `{"namespace":"a"}`, 201, `{"resourceRules":[],"nonResourceRules":[],"incomplete":true,"evaluationError":"authz.Func: authorizer does not support user rule resolution"}`},
		{"local", access + "namespaces/a/localsubjectaccessreviews", `{"user":"jane","resourceAttributes":{"verb":"list","resource":"pods","namespace":"a"}}`, 201, `{"allowed":true,"reason":"because"}`},
		{"not local", access + "namespaces/b/localsubjectaccessreviews", `{"user":"jane","resourceAttributes":{"verb":"list","resource":"pods","namespace":"a"}}`, 422, `spec.resourceAttributes.namespace: Invalid value: \"a\": must match metadata.namespace`},
		{"who am I", identity + "selfsubjectreviews", `{}`, 201, `{"userInfo":{"username":"jane"}}`},
		{"token", identity + "tokenreviews", `{"token":"good"}`, 201, `{"authenticated":true,"user":{"username":"jane","uid":"7","groups":["dev"],"extra":{"k":["v"]}}}`},
		{"bad token", identity + "tokenreviews", `{"token":"bad"}`, 201, `{"user":{},"error":"expired"}`},
		{"unknown token", identity + "tokenreviews", `{"token":"other"}`, 201, `{"user":{}}`},
		{"no token", identity + "tokenreviews", `{}`, 400, "token is required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `{"spec":` + c.spec + `}`
			if strings.Contains(c.path, "selfsubjectreviews") {
				body = `{}`
			}
			response, err := s.As("jane").Post("http://memory"+c.path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			data, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			got := string(data)
			if response.StatusCode == http.StatusCreated {
				var review struct{ Status json.RawMessage }
				if err := json.Unmarshal(data, &review); err != nil {
					t.Fatal(err)
				}
				if string(review.Status) != c.want || strings.Contains(got, `"token"`) {
					t.Errorf("got %s, want %s", got, c.want)
				}
			} else if !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if response.StatusCode != c.code {
				t.Errorf("%d, want %d", response.StatusCode, c.code)
			}
		})
	}
}
