package planetest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/planetest"
)

// TestQuantities sends quantities that would take minutes to decode or to compare, in each way in which an
// object can be written. Each is refused at once.
func TestQuantities(t *testing.T) {
	api := planetest.Start(t).Client()
	var containers []string
	for i := range 50 {
		containers = append(containers, fmt.Sprintf(`{"name": "c%d", "image": "x", "resources": {"requests": {"memory": "QUANTITY"}}}`, i))
	}
	limits := strings.Join(containers, ",")
	spec := `"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [` + limits + `]}}}`
	whole := `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, ` + spec + `}`
	const list, one = "/apis/apps/v1/namespaces/default/deployments", "/apis/apps/v1/namespaces/default/deployments/web"
	do := func(method, path, contentType, body string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		path, query, _ := strings.Cut(path, "?")
		values, _ := url.ParseQuery(query)
		_, err := api.Do(ctx, client.Request{Method: method, Path: path, Query: values, Body: []byte(body), ContentType: contentType})
		return fmt.Sprint(err)
	}
	if err := do(http.MethodPost, list, "application/json", strings.ReplaceAll(whole, "QUANTITY", "1Mi")); err != "<nil>" {
		t.Fatal(err)
	}
	for _, quantity := range []string{"1e-9999999", "1e9999999"} {
		for name, write := range map[string][4]string{
			"create":      {http.MethodPost, list, "application/json", strings.Replace(whole, `"web"`, `"other"`, 1)},
			"update":      {http.MethodPut, one, "application/json", whole},
			"merge patch": {http.MethodPatch, one, "application/merge-patch+json", "{" + spec + "}"},
			"strategic":   {http.MethodPatch, one, "application/strategic-merge-patch+json", "{" + spec + "}"},
			"json patch":  {http.MethodPatch, one, "application/json-patch+json", `[{"op": "add", "path": "/spec/template/spec/containers", "value": [` + limits + `]}]`},
			"apply":       {http.MethodPatch, one + "?fieldManager=x&force=true", "application/apply-patch+yaml", whole},
		} {
			if err := do(write[0], write[1], write[2], strings.ReplaceAll(write[3], "QUANTITY", quantity)); !strings.Contains(err, "quantity out of range") {
				t.Errorf("%s with %s: %s", name, quantity, err)
			}
		}
	}
}
