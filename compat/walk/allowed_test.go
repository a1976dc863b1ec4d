package walk

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/compat/pair"
)

// allowances are all of them. What is matched is one aspect, with its name: "code: 406 only the following ...".
var allowances = pair.Allowances{
	pair.Allowed("HEAD of a resource", `^HEAD `, `^code: 405`, ``),
	pair.Allowed("Accept: application/*", `Accept: application/\* `, `^code: 406`, ``),
	pair.Allowed("a resourceVersion that is no number", ``, `^code: (500|400|200)`, `^code: 400 .*must be a decimal number`),
	pair.Allowed("a resourceVersion that is no number", `/(status|scale|approval|ephemeralcontainers|resize)\?resourceVersion=`, `^code: 500`, `^code: 200`),
	pair.Allowed("a fieldManager or a body in YAML", `Content-Type: application/yaml \(wrong`, ``, `^code: 400 .*not valid UTF-8`),
	pair.Allowed("a fieldManager or a body in YAML", `fieldManager=%ff`, `^code: (20[01]|409|422)`, `^code: 400 .*not valid UTF-8`),
	pair.Allowed("continue tokens of another server", `continue=`, `^code: 200`, `^code: 400 .*continue key is not valid`),
	pair.Allowed("a create with a resourceVersion; an applied field", ``, `^code: 500 .*(failed to create typed patch object|failed to convert)`, `^code: 400`),
	pair.Allowed("discovery by another method", `^GET /(api|apis)/(([^/ ?]+/)?[^/ ?]+/)?(\?| )`, ``, ``),
	pair.Allowed("discovery by another method", `^[A-Z]+ /(api|apis|apis/[^/]+|apis/[^/]+/[^/]+|version)/\?? ?`, `^code: (200|406)`, `^code: (200|405)`),
	pair.Allowed("the keys of tokens, the issuer", `^[A-Z]+ /(\.well-known/openid-configuration|openid/v1/jwks|version)`, ``, ``),
	pair.Allowed("API", `resource\.k8s\.io/|volumeattributesclass|componentstatuses|/bindings`, ``, `^(code: 404|.*)`),
	pair.Allowed("a body in CBOR", `Content-Type: (application/cbor|application/apply-patch\+cbor)`, ``, ``),
	pair.Allowed("tables of subresources", `/scale\b.*as=Table`, ``, ``),
	pair.Allowed("tables of subresources", `/(approval|ephemeralcontainers|resize|finalize)\b.*as=Table`, ``, ``),
	pair.Allowed("tables of subresources", `(customresourcedefinitions|apiservices)/.*/status.*as=Table`, ``, ``),
	pair.Allowed("the log of a pod that does not exist", `^GET .*/pods/missing/log\?`, `^code: 4(00|22)`, `^code: 404`),
	pair.Allowed("Accept` for a log", `^GET .*/log\b`, `^code: (406|500)`, ``),
	pair.Allowed("the option `stream` of a log", `^GET .*/log\?.*stream=`, `^code: 422`, ``),
	pair.Allowed("a strategic merge patch with a directive", `strategic-merge-patch`, `^code: 500`, `^code: 422`),
	pair.Allowed("metadata of an object where it is a list", `^DELETE .*as=PartialObjectMetadata`, `^header Warning`, ``),
	pair.Allowed("metadata of an object where it is a list", `as=PartialObjectMetadata`, ``, `^code: 406 `),
	pair.Allowed("an apply to the status of a flow schema", `^PATCH .*/(flowschemas|prioritylevelconfigurations)/.*/status`, `^code: 200`, `^code: 422 .*metadata.uid`),
	pair.Allowed("labels and annotations of a Binding", `/binding\?.*\(wrong (labels|annotations)\)`, `^code: 201`, `^code: 422`),
	pair.Allowed("the status of a Service that does not exist", `/services/missing/status`, ``, `^code: 404`),
	pair.Allowed("a compacted resourceVersion or continue token", `^DELETE .*(resourceVersion|continue)=`, `^code: (200|410)`, `^code: (200|400|410)`).ByChance(), // the servers compact on their own
	pair.Allowed("patches of objects that do not exist", `^PATCH .*/validatingadmissionpolicies/missing/status`, `^code: 400`, `^code: 404`),
	pair.Allowed("patches of objects that do not exist", `^PATCH .*/missing`, `^code: (404|422)`, `^code: 4(00|04|15|22)`),
}

// strict reports whether an aspect counts in every walk: the code, the headers, the kind and the reason. The others count
// with -all.
func strict(aspect string) bool {
	return aspect == "code" || strings.HasPrefix(aspect, "header ") || aspect == ".kind" || aspect == ".apiVersion" || aspect == ".reason"
}

// TestRows: each allowance names a row of COMPATIBILITY.md.
func TestRows(t *testing.T) { allowances.Rows(t) }
