//go:build walk

package walk

import (
	"regexp"
	"strings"
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
	allowed("a fieldManager that is not UTF-8", `fieldManager=%ff`, `^code: (20[01]|422)`, `^code: 400 .*not valid UTF-8`),
	allowed("continue tokens of another server", `continue=`, `^code: 200`, `^code: 400 .*continue key is not valid`),
	allowed("a create with a resourceVersion; an applied field", ``, `^code: 500 .*(failed to create typed patch object|failed to convert)`, `^code: 400`),
	allowed("the discovery of one group", `^[A-Z]+ /(api|apis|apis/[^/]+|apis/[^/]+/[^/]+|version)/\?? ?`, `^code: (200|406)`, `^code: (200|405)`),
	allowed("the keys and the issuer's configuration", `^[A-Z]+ /(\.well-known/openid-configuration|openid/v1/jwks|version)`, ``, ``),
	allowed("API", `resource\.k8s\.io/|volumeattributesclass|componentstatuses|/bindings`, ``, `^(code: 404|.*)`),
	allowed("a body in CBOR", `Content-Type: (application/cbor|application/apply-patch\+cbor)`, ``, ``),
	allowed("tables of subresources", `as=Table`, ``, `^code: 406 .*has no table`),
	allowed("patches of objects that do not exist", `^PATCH .*/missing`, `^code: 404`, `^code: 4(00|15|22)`),
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
