package walk

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// An allowance is a difference that COMPATIBILITY.md names. One that matches nothing in the whole walk is an error.
type allowance struct {
	// row begins the row of COMPATIBILITY.md that has the reason.
	row string
	// request, if set, matches the request; want and got match what the servers answer.
	request, want, got *regexp.Regexp
	count              int
}

func allowed(row, request, want, got string) *allowance {
	return &allowance{row: row, request: regexp.MustCompile(request), want: regexp.MustCompile(want), got: regexp.MustCompile(got)}
}

// allowances are all of them. What is matched is one aspect, with its name: "code: 406 only the following ...".
var allowances = []*allowance{
	allowed("HEAD of a resource", `^HEAD `, `^code: 405`, ``),
	allowed("Accept: application/*", `Accept: application/\* `, `^code: 406`, ``),
	allowed("a resourceVersion that is no number", ``, `^code: (500|400|200)`, `^code: 400 .*must be a decimal number`),
	allowed("a resourceVersion that is no number", `/(status|scale|approval|ephemeralcontainers|resize)\?resourceVersion=`, `^code: 500`, `^code: 200`),
	allowed("a fieldManager or a body in YAML", `Content-Type: application/yaml \(wrong`, ``, `^code: 400 .*not valid UTF-8`),
	allowed("a fieldManager or a body in YAML", `fieldManager=%ff`, `^code: (20[01]|409|422)`, `^code: 400 .*not valid UTF-8`),
	allowed("continue tokens of another server", `continue=`, `^code: 200`, `^code: 400 .*continue key is not valid`),
	allowed("a create with a resourceVersion; an applied field", ``, `^code: 500 .*(failed to create typed patch object|failed to convert)`, `^code: 400`),
	allowed("discovery by another method", `^GET /(api|apis)/(([^/ ?]+/)?[^/ ?]+/)?(\?| )`, ``, ``),
	allowed("discovery by another method", `^[A-Z]+ /(api|apis|apis/[^/]+|apis/[^/]+/[^/]+|version)/\?? ?`, `^code: (200|406)`, `^code: (200|405)`),
	allowed("the keys of tokens, the issuer", `^[A-Z]+ /(\.well-known/openid-configuration|openid/v1/jwks|version)`, ``, ``),
	allowed("API", `resource\.k8s\.io/|volumeattributesclass|componentstatuses|/bindings`, ``, `^(code: 404|.*)`),
	allowed("a body in CBOR", `Content-Type: (application/cbor|application/apply-patch\+cbor)`, ``, ``),
	allowed("tables of subresources", `/scale\b.*as=Table`, ``, ``),
	allowed("tables of subresources", `/(approval|ephemeralcontainers|resize|finalize)\b.*as=Table`, ``, ``),
	allowed("tables of subresources", `(customresourcedefinitions|apiservices)/.*/status.*as=Table`, ``, ``),
	allowed("the log of a pod that does not exist", `^GET .*/pods/missing/log\?`, `^code: 4(00|22)`, `^code: 404`),
	allowed("Accept` for a log", `^GET .*/log\b`, `^code: (406|500)`, ``),
	allowed("the option `stream` of a log", `^GET .*/log\?.*stream=`, `^code: 422`, ``),
	allowed("a strategic merge patch with a directive", `strategic-merge-patch`, `^code: 500`, `^code: 422`),
	allowed("metadata of an object where it is a list", `^DELETE .*as=PartialObjectMetadata`, `^header Warning`, ``),
	allowed("metadata of an object where it is a list", `as=PartialObjectMetadata`, ``, `^code: 406 `),
	allowed("an apply to the status of a flow schema", `^PATCH .*/(flowschemas|prioritylevelconfigurations)/.*/status`, `^code: 200`, `^code: 422 .*metadata.uid`),
	allowed("labels and annotations of a Binding", `/binding\?.*\(wrong (labels|annotations)\)`, `^code: 201`, `^code: 422`),
	allowed("a finalizer without a domain in an update of a CronJob", `/cronjobs/walk/status\?.*finalizers`, `^code: 200`, `^code: 422`),
	allowed("the status of a Service that does not exist", `/services/missing/status`, ``, `^code: 404`),
	allowed("a compacted resourceVersion or continue token", `^DELETE .*(resourceVersion|continue)=`, `^code: (200|410)`, `^code: (200|400|410)`),
	allowed("patches of objects that do not exist", `^PATCH .*/missing`, `^code: (404|422)`, `^code: 4(00|04|15|22)`),
}

// allow reports whether a difference is one of those.
func allow(r request, d difference) bool {
	text := r.String() + " "
	for _, a := range allowances {
		if a.request.MatchString(text) && a.want.MatchString(d.aspect+": "+d.want) && a.got.MatchString(d.aspect+": "+d.got) {
			a.count++
			return true
		}
	}
	return false
}

// strict reports whether an aspect counts in every walk: the code, the headers, the kind and the reason. The others count
// with -all.
func strict(aspect string) bool {
	return aspect == "code" || strings.HasPrefix(aspect, "header ") || aspect == ".kind" || aspect == ".apiVersion" || aspect == ".reason"
}

// TestRows: each allowance names a row of COMPATIBILITY.md.
func TestRows(t *testing.T) {
	text, err := os.ReadFile("../../COMPATIBILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range allowances {
		if !regexp.MustCompile("(?m)^\\| `?" + regexp.QuoteMeta(a.row)).Match(text) {
			t.Errorf("no row of COMPATIBILITY.md begins with %q, want one", a.row)
		}
	}
}
