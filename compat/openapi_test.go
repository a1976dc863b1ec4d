package compat

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authz"
	"k8s.io/client-go/rest"
)

// knownDifferences are the intended differences between planekit's documents and kube-apiserver's,
// each with a pattern and the reason.
var knownDifferences = []struct{ pattern, reason string }{
	{`: x-kubernetes-unions`, "no client reads it"},
	{`^io.k8s.apimachinery.pkg.(api.resource.Quantity|apis.meta.v1.(Micro)?Time|runtime.RawExtension|util.intstr.IntOrString): description`,
		"said in our words: these types have no SwaggerDoc"},
	{`^io.k8s.api.storage.v1.VolumeAttachmentSource.inlineVolumeSpec: (description|allOf|\$ref)`, "SwaggerDoc has no description"},
	{`^io.k8s.api.core.v1.(TopologySpreadConstraint.(maxSkew|minDomains|whenUnsatisfiable)|PodSecurityContext.fsGroup|PodSpec.setHostnameAsFQDN): description`,
		"SwaggerDoc is cut off, or has lost its backslashes, where the comment has a table"},
	{`^io.k8s.api.certificates.v1.CertificateSigningRequestStatus.certificate: description`,
		"SwaggerDoc is cut off at the dashes of a PEM block"},
	{`^io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec.validationActions: description`,
		"SwaggerDoc has lost its backslashes"},
	{`^io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions: x-kubernetes-group-version-kind`, "has the versions that we do not serve, too"},
	{`^io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent(.object)?: (x-kubernetes-group-version-kind|description|allOf|\$ref)`,
		"SwaggerDoc has no description, and it is of every group"},
	{`^io.k8s.api.core.v1.PersistentVolumeClaim: x-kubernetes-group-version-kind`, "in the document of apps, which does not serve it"},
}

// TestOpenAPI compares the schemas of planekit's documents with those in kube-apiserver's source:
// properties, required properties, types, formats, defaults, descriptions, and merge strategies of
// lists.
func TestOpenAPI(t *testing.T) {
	source := kubernetesSource(t)
	everyone := authz.Func(authz.Superusers("system:masters").Authorize)
	config := serve(t, apiservertest.WithResources(review.Resources(authn.Chain{anonymous.Authenticator{}}, everyone)...))
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		}
	}
	fetchJSON(t, config, "/openapi/v3", &index)
	c := &schemaComparison{hit: map[string]bool{}, differences: map[string]bool{}}
	for path, at := range index.Paths {
		type document struct {
			Components struct {
				Schemas map[string]openAPISchema
			}
			Paths map[string]map[string]any
		}
		var ours, theirs document
		fetchJSON(t, config, at.URL, &ours)
		readJSON(t, filepath.Join(source, "api/openapi-spec/v3", strings.ReplaceAll(path, "/", "__")+"_openapi.json"), &theirs)
		c.all(ours.Components.Schemas, theirs.Components.Schemas)
		c.operations(ours.Paths, theirs.Paths)
	}
	var ours, theirs struct{ Definitions map[string]openAPISchema }
	fetchJSON(t, config, "/openapi/v2", &ours)
	readJSON(t, filepath.Join(source, "api/openapi-spec/swagger.json"), &theirs)
	c.all(ours.Definitions, theirs.Definitions)
	c.report(t)
	if c.compared < 7000 {
		t.Errorf("only %d schemas and properties were compared", c.compared)
	}
	sameEnums(t, ours.Definitions, filepath.Join(source, "pkg/generated/openapi/zz_generated.openapi.go"))
}

// openAPISchema is a schema in its written form.
type openAPISchema = map[string]any

type schemaComparison struct {
	compared    int
	differences map[string]bool
	hit         map[string]bool // known differences that occurred, by pattern
}

// all compares the schemas that both have; of theirs are more.
func (c *schemaComparison) all(ours, theirs map[string]openAPISchema) {
	for name, our := range ours {
		their := theirs[name]
		switch {
		case their != nil:
			c.compare(name, our, their)
		case strings.HasPrefix(name, "io.k8s."):
			c.differ("%s: theirs has no such schema", name)
		}
	}
}

// operations compares the kinds of operations on planekit's paths, and their names.
func (c *schemaComparison) operations(ours, theirs map[string]map[string]any) {
	for path, our := range ours {
		for method, operation := range our {
			our, ok := operation.(openAPISchema)
			their, _ := theirs[path][method].(openAPISchema)
			for _, key := range []string{"operationId", "description", "tags", "x-kubernetes-action", "x-kubernetes-group-version-kind"} {
				if ok && !reflect.DeepEqual(our[key], their[key]) {
					c.differ("%s %s: %s: ours %v, theirs %v", method, path, key, our[key], their[key])
				}
			}
		}
	}
}

func (c *schemaComparison) compare(at string, ours, theirs openAPISchema) {
	c.compared++
	for _, key := range keysOf(ours, theirs) {
		our, their := ours[key], theirs[key]
		ourMap, ok1 := our.(openAPISchema)
		theirMap, ok2 := their.(openAPISchema)
		switch {
		case key == "enum": // the files omit it; see sameEnums
		case key == "properties" && (ok1 || ok2):
			for _, name := range keysOf(ourMap, theirMap) {
				ourField, ok1 := ourMap[name].(openAPISchema)
				theirField, ok2 := theirMap[name].(openAPISchema)
				if ok1 != ok2 {
					c.differ("%s.%s: ours %t, theirs %t", at, name, ok1, ok2)
					continue
				}
				c.compare(at+"."+name, ourField, theirField)
			}
		case (key == "items" || key == "additionalProperties") && ok1 && ok2:
			c.compare(at+"."+key, ourMap, theirMap)
		case key == "description":
			if our, their := words(our), words(their); our != their {
				c.differ("%s: description: ours %q, theirs %q", at, our, their)
			}
		case key == "required":
			if our, their := sorted(our), sorted(their); !slices.Equal(our, their) {
				c.differ("%s: required: ours %v, theirs %v", at, our, their)
			}
		case !reflect.DeepEqual(our, their):
			c.differ("%s: %s: ours %v, theirs %v", at, key, our, their)
		}
	}
}

func (c *schemaComparison) differ(format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	for _, known := range knownDifferences {
		if regexp.MustCompile(known.pattern).MatchString(text) {
			c.hit[known.pattern] = true
			return
		}
	}
	c.differences[text] = true
}

// report fails the test for unknown differences, and for known ones that did not occur.
func (c *schemaComparison) report(t *testing.T) {
	t.Helper()
	for text := range c.differences {
		t.Error(text)
	}
	for _, known := range knownDifferences {
		if !c.hit[known.pattern] {
			t.Errorf("%s (%s): does not differ any more", known.pattern, known.reason)
		}
	}
}

var (
	generatedFunction = regexp.MustCompile(`^func (schema_\w+)\(`)
	generatedProperty = regexp.MustCompile(`^\t{5}"([^"]+)": \{$`)
	generatedEnum     = regexp.MustCompile(`^\t+Enum: +\[\]interface\{\}\{(.*)\},$`)
)

// sameEnums compares the values of properties with those in the code from which kube-apiserver's
// documents are made.
func sameEnums(t *testing.T, ours map[string]openAPISchema, generated string) {
	t.Helper()
	data, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{}
	function, property := "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if m := generatedFunction.FindStringSubmatch(line); m != nil {
			function = m[1]
		} else if m := generatedProperty.FindStringSubmatch(line); m != nil {
			property = m[1]
		} else if m := generatedEnum.FindStringSubmatch(line); m != nil {
			theirs[function+"."+property] = strings.ReplaceAll(m[1], `"`, "")
		}
	}
	seen := 0
	for name, s := range ours {
		group, ok := strings.CutPrefix(name, "io.k8s.api.")
		if !ok {
			continue
		}
		properties, _ := s["properties"].(openAPISchema)
		for field, p := range properties {
			key := "schema_k8sio_api_" + strings.ReplaceAll(group, ".", "_") + "." + field
			if our := enumOf(p.(openAPISchema)); our != theirs[key] {
				t.Errorf("%s.%s: enum: ours %q, theirs %q", name, field, our, theirs[key])
			} else if our != "" {
				seen++
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d properties with an enum", seen)
	}
}

// enumOf returns the values of a property, or of the elements of its list or map.
func enumOf(property openAPISchema) string {
	for _, inside := range []string{"items", "additionalProperties"} {
		if element, ok := property[inside].(openAPISchema); ok {
			property = element
		}
	}
	values, _ := property["enum"].([]any)
	return strings.Join(texts(values), ", ")
}

// kubernetesSource returns the directory of kube-apiserver's source.
func kubernetesSource(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	version := strings.Replace(strings.TrimSpace(string(out)), "v0.", "v1.", 1)
	out, err = exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version).Output()
	if err != nil {
		t.Skipf("the source of Kubernetes %s is not to be had: %v", version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	return module.Dir
}

func fetchJSON(t *testing.T, config *rest.Config, path string, into any) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(config.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s answers %d, %v, want %d", path, response.StatusCode, err, http.StatusOK)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("json.Unmarshal of the answer to GET %s: %v", path, err)
	}
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("json.Unmarshal of %s: %v", file, err)
	}
}

func keysOf(a, b openAPISchema) []string {
	var keys []string
	for _, m := range []openAPISchema{a, b} {
		for key := range m {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// words returns text with uniform white space.
func words(text any) string {
	s, _ := text.(string)
	return strings.Join(strings.Fields(s), " ")
}

func sorted(list any) []string {
	values, _ := list.([]any)
	return slices.Sorted(slices.Values(texts(values)))
}

func texts(values []any) []string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return out
}
