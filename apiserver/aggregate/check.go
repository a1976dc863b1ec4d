package aggregate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/kinds/apiregistration"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of a check: those of kube-aggregator, and a bound to what a server may
// say of itself.
const (
	checkTimeout  = 5 * time.Second
	checkAttempts = 5
	maxDocument   = 16 << 20
)

// checker is the user that asks other servers.
var checker = &user.Info{Name: "system:kube-aggregator", Groups: []string{user.Masters}}

// answer describes another server as it has described itself.
type answer struct {
	resources []metav1.APIResource
	// hash is the hash of the server's OpenAPI v3 document, empty if it has none.
	hash string
	// current reports whether the last check returned this answer.
	current bool
}

// condition is an Available condition with what kube-aggregator says.
func condition(status metav1.ConditionStatus, reason, format string, arguments ...any) apiregistration.APIServiceCondition {
	return apiregistration.APIServiceCondition{
		Type: apiregistration.Available, Status: status, Reason: reason, Message: fmt.Sprintf(format, arguments...),
	}
}

func local() apiregistration.APIServiceCondition {
	return condition(metav1.ConditionTrue, "Local", "Local APIServices are always available")
}

// check finds out whether b's server is there. failed says that it did not
// answer, which is worth another try soon.
func (b *backend) check(ctx context.Context) (c apiregistration.APIServiceCondition, said answer, failed bool) {
	s, ok := b.config.Services.Get(b.namespace + "/" + b.name)
	if !ok {
		return condition(metav1.ConditionFalse, "ServiceNotFound", "service/%s in %q is not present", b.name, b.namespace), answer{}, false
	}
	if c := b.checkEndpoints(s); c.Reason != "" {
		return c, answer{}, false
	}
	body, err := b.discover(ctx)
	if err != nil {
		return condition(metav1.ConditionFalse, "FailedDiscoveryCheck", "%s", err), answer{}, true
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil || list.GroupVersion != b.gv.String() {
		b.config.Log.Info("another API server does not say what it serves", "groupVersion", b.gv.String(), "error", fmt.Sprint(err))
	} else {
		said = answer{list.APIResources, b.openAPIHash(ctx), true}
	}
	return condition(metav1.ConditionTrue, "Passed", "all checks passed"), said, false
}

// checkEndpoints reports what a service with a cluster IP lacks; the condition
// is empty where it lacks nothing.
func (b *backend) checkEndpoints(s *corev1.Service) (c apiregistration.APIServiceCondition) {
	if s.Spec.Type != corev1.ServiceTypeClusterIP {
		return c
	}
	p := portOf(s, b.port)
	if p == nil {
		return condition(metav1.ConditionFalse, "ServicePortError", "service/%s in %q is not listening on port %d", b.name, b.namespace, b.port)
	}
	found := false
	for slice := range b.config.Endpoints.Get(b.namespace + "/" + b.name) {
		found = true
		if numberOf(slice, p.Name) != 0 && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return usable(e) }) {
			return c
		}
	}
	if !found {
		return condition(metav1.ConditionFalse, "EndpointsNotFound", "cannot find endpointslices for service/%s in %q", b.name, b.namespace)
	}
	return condition(metav1.ConditionFalse, "MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", b.name, b.namespace, p.Name)
}

// discover reads the discovery document of the group version. Where the first
// endpoint fails others are tried side by side; one that answers is enough.
func (b *backend) discover(ctx context.Context) ([]byte, error) {
	path := "/apis/" + b.gv.Group + "/" + b.gv.Version
	body, err := b.read(ctx, path)
	if err == nil {
		return body, nil
	}
	type result struct {
		body []byte
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, checkAttempts-1)
	for range cap(results) {
		go func() {
			body, err := b.read(ctx, path)
			results <- result{body, err}
		}()
	}
	for range cap(results) {
		// All are waited for: none outlives the check.
		if r := <-results; r.err == nil {
			body, err = r.body, nil
			cancel()
		}
	}
	return body, err
}

// openAPIHash asks for the hash of the group version's OpenAPI v3 document.
func (b *backend) openAPIHash(ctx context.Context) string {
	body, err := b.read(ctx, "/openapi/v3")
	if err != nil {
		b.config.Log.V(1).Info("another API server has no OpenAPI v3", "groupVersion", b.gv.String(), "error", err.Error())
		return ""
	}
	return hashIn(body, "apis/"+b.gv.Group+"/"+b.gv.Version)
}

// read gets what the server has at path, as the checker.
func (b *backend) read(ctx context.Context, path string) ([]byte, error) {
	to, err := b.config.Resolver.Resolve(ctx, b.namespace, b.name, b.port)
	if err != nil {
		return nil, err
	}
	to.Path = path
	through, err := b.transport(false)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	identifyTo(r.Header, checker)
	client := &http.Client{
		Transport: through, Timeout: checkTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("failing or missing response from %v: %w", to, err)
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("failing or missing response from %v: bad status from %v: %d", to, to, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument))
	if err != nil {
		return nil, fmt.Errorf("failing or missing response from %v: %w", to, err)
	}
	return body, nil
}
