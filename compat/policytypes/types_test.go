package policytypes

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/planekit/planekit/admission/policy"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/kubecel/openapi"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	clientopenapi "k8s.io/client-go/openapi"
)

var kinds = map[schema.GroupVersionResource]schema.GroupVersionKind{
	{Version: "v1", Resource: "pods"}:                                                               {Version: "v1", Kind: "Pod"},
	{Version: "v1", Resource: "services"}:                                                           {Version: "v1", Kind: "Service"},
	{Version: "v1", Resource: "configmaps"}:                                                         {Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Resource: "secrets"}:                                                            {Version: "v1", Kind: "Secret"},
	{Group: "apps", Version: "v1", Resource: "deployments"}:                                         {Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}:                     {Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}:                        {Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}: {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
}

// documents reads the documents of a server of ours.
type documents struct {
	t   *testing.T
	web *http.Client
}

func (d documents) Kinds(context.Context) (map[schema.GroupVersionResource]schema.GroupVersionKind, error) {
	return kinds, nil
}

func (d documents) Document(_ context.Context, version schema.GroupVersion) (*openapi.Document, error) {
	path := "apis/" + version.String()
	if version.Group == "" {
		path = "api/" + version.Version
	}
	body, err := read(d.web, path)
	if err != nil || body == nil {
		return nil, err
	}
	return openapi.Parse(body)
}

// read returns a document, nil if there is none.
func read(web *http.Client, path string) ([]byte, error) {
	response, err := web.Get("http://memory/openapi/v3/" + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	return io.ReadAll(response.Body)
}

// served shows the documents to upstream's checker, with quantities as kube-controller-manager's own definitions
// have them: texts.
type served struct {
	discovery.DiscoveryInterface
	web *http.Client
}

func (s served) OpenAPIV3() clientopenapi.Client { return s }

func (s served) Paths() (map[string]clientopenapi.GroupVersion, error) {
	out := map[string]clientopenapi.GroupVersion{}
	for r := range kinds {
		path := "apis/" + r.GroupVersion().String()
		if r.Group == "" {
			path = "api/" + r.Version
		}
		out[path] = one{s, path}
	}
	return out, nil
}

type one struct {
	served
	path string
}

func (o one) ServerRelativeURL() string { return "/openapi/v3/" + o.path }

func (o one) Schema(string) ([]byte, error) {
	body, err := read(o.web, o.path)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, err
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	if schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"] != nil {
		schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"] = map[string]any{"type": "string"}
	}
	return json.Marshal(doc)
}

func rule(group, version string, resources ...string) registration.NamedRuleWithOperations {
	return registration.NamedRuleWithOperations{RuleWithOperations: registration.RuleWithOperations{
		Rule: registration.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources}}}
}

// expressions are compiled for each of the rules. Some are wrong.
var expressions = []string{
	"true", "", "(", "1 + 'a'", "object", "object.metadata.name", "object.metadata.labels['a'] == 'b'", "object.metadata.labels.a",
	"object.metadata.creationTimestamp > timestamp('2026-01-01T00:00:00Z')", "object.metadata.creationTimestamp == 'a'",
	"object.metadata.managedFields[0].fieldsV1.x", "object.metadata.nothing", "object.metadata.ownerReferences.exists(o, o.controller == 1)",
	"object.kind == 'Pod' && object.apiVersion == 1", "oldObject.spec.replicas < object.spec.replicas", "object.spec.replicas == 'a'",
	"object.spec == 1", "object.spec.template.spec.containers.all(c, c.image.startsWith('a'))",
	"object.spec.template.spec.containers.all(c, c.resources.limits.cpu == quantity('1'))", "object.spec.containers[0].resources.limits['cpu'] == '1'",
	"object.spec.containers[0].ports[0].name + 1 == 2", "object.spec.ports[0].targetPort == 'a'", "object.spec.ports[0].targetPort == 1",
	"object.spec.strategy.rollingUpdate.maxSurge > 1", "object.spec.volumes.all(v, has(v.hostPath) && v.hostPath.path == '/')",
	"object.data['a'] == b'b'", "object.data.a == 'b'", "object.binaryData.a == 'a'", "object.immutable == 1", "object.stringData.a.size() > 1.5",
	"object.status.conditions.all(c, c.lastTransitionTime > timestamp('2026-01-01T00:00:00Z'))", "object.status.nothing",
	"object.spec.behavior.scaleDown.tolerance == '1'", "object.spec.metrics[0].resource.target.averageValue == 1",
	"object.spec.ingress[0].__from__[0].podSelector.matchLabels.a == 'b'", "object.spec.ingress[0].from[0].podSelector.matchLabels.a == 1",
	"object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.size() == 'a'",
	"object.spec.template.spec.nodeSelector == {'a': 'b'}", "object.spec.template == object.metadata", "has(object.spec.nothing)",
	"params.data.limit == '1'", "params.nothing", "params.data.limit == 1", "authorizer.group('').resource('pods').check('get').allowed()",
	"authorizer.requestResource.check('get').allowed()", "request.userInfo.username == 1", "request.nothing", "request.kind.kind == 'a'",
	"namespaceObject.metadata.labels.a == 'b'", "namespaceObject.metadata.nothing", "variables.replicas > 1", "variables.replicas == 'a'", "variables.broken == 1",
	"variables.nothing", "variables.spec.nothing", "variables.later == variables.replicas", "ip('1.2.3.4').family() == 4", "ip('1.2.3.4') == 1",
	"url('https://a').getHost() == 1", "optional.of(object.metadata.name).orValue(1) == 'a'", "object.?spec.?nothing.hasValue()", "[1, 'a'].size() == 2",
	"object.spec.validations.all(v, v.expression == 1)",
}

// TestTypes compares the warnings about a table of expressions for each of several rules.
func TestTypes(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...))
	ours, err := policy.NewTypeChecker(documents{t, server.As("admin", user.Masters)})
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for r, kind := range kinds {
		mapper.AddSpecific(kind, r, r.GroupVersion().WithResource("one"+r.Resource), meta.RESTScopeNamespace)
	}
	theirs := &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: served{web: server.As("admin", user.Masters)}}, RestMapper: mapper,
	}
	unique := regexp.MustCompile(`\b([A-Z][A-Za-z]+)(\d+|@)`)
	warned := 0
	for _, rules := range [][]registration.NamedRuleWithOperations{
		{rule("", "v1", "pods")}, {rule("apps", "v1", "deployments", "deployments/status")}, {rule("", "v1", "services", "configmaps", "pods")}, {rule("", "v1", "secrets")},
		{rule("autoscaling", "v2", "horizontalpodautoscalers")}, {rule("networking.k8s.io", "v1", "networkpolicies")},
		{rule("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")}, {rule("*", "v1", "pods")}, {rule("example.com", "v1", "pods")},
		{rule("apps", "v1", "*"), rule("", "v1", "pods")},
	} {
		for _, kind := range []*registration.ParamKind{nil, {APIVersion: "v1", Kind: "ConfigMap"}, {APIVersion: "example.com/v1", Kind: "Limit"}} {
			p := &registration.ValidatingAdmissionPolicy{}
			p.Spec.MatchConstraints, p.Spec.ParamKind = &registration.MatchResources{ResourceRules: rules}, kind
			p.Spec.Variables = []registration.Variable{
				{Name: "replicas", Expression: "object.spec.replicas"}, {Name: "broken", Expression: "object.("}, {Name: "spec", Expression: "object.spec"},
				{Name: "later", Expression: "variables.replicas + 1"},
			}
			for _, e := range expressions {
				p.Spec.Validations = append(p.Spec.Validations, registration.Validation{Expression: e}, registration.Validation{Expression: "true", MessageExpression: e})
			}
			got, err := ours.Check(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			want := theirs.Check(p)
			byField := func(list []registration.ExpressionWarning) map[string]string {
				out := map[string]string{}
				for _, w := range list {
					out[w.FieldRef] = unique.ReplaceAllString(w.Warning, "$1")
				}
				return out
			}
			g, w := byField(got), byField(want)
			for i, v := range p.Spec.Validations {
				for _, e := range [][2]string{{"expression", v.Expression}, {"messageExpression", v.MessageExpression}} {
					name := "spec.validations[" + strconv.Itoa(i) + "]." + e[0]
					if g[name] != w[name] {
						t.Errorf("%v, %s:\n%q\nwant\n%q", rules[0].Resources, e[1], g[name], w[name])
					}
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d warnings, want %d", len(got), len(want))
			}
			warned += len(want)
		}
	}
	if warned < 1000 {
		t.Errorf("only %d warnings", warned)
	}
}
