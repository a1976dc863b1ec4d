package kubecel

import (
	"fmt"
	"net/url"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var urlKind = reading[*url.URL]{cel.OpaqueType("kubernetes.URL"), parseURL, func(a, b *url.URL) bool { return a.String() == b.String() }}

// parseURL is stricter than isURL, as in kube-apiserver. It requires an absolute URL or path, as
// ParseRequestURI does, but parses the fragment, which ParseRequestURI would take for a part of the
// path.
func parseURL(text string) (*url.URL, error) {
	if _, err := url.ParseRequestURI(text); err != nil {
		return nil, fmt.Errorf("URL parse error during conversion from string: %w", err)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("URL parse error during conversion from string: %w", err)
	}
	return u, nil
}

// urls returns Kubernetes' library for URLs.
func urls() []cel.EnvOption {
	text := []*cel.Type{cel.StringType}
	part := func(name, overload string, of func(*url.URL) string) cel.EnvOption {
		return member(name, overload, urlKind.of, cel.StringType, func(u *url.URL) ref.Val { return types.String(of(u)) })
	}
	return []cel.EnvOption{
		cel.Function("url", cel.Overload("string_to_url", text, urlKind.of, urlKind.converts())),
		cel.Function("isURL", cel.Overload("is_url_string", text, cel.BoolType, unary(func(s string) ref.Val {
			_, err := url.ParseRequestURI(s)
			return types.Bool(err == nil)
		}))),
		part("getScheme", "url_get_scheme", func(u *url.URL) string { return u.Scheme }),
		part("getHost", "url_get_host", func(u *url.URL) string { return u.Host }),
		part("getHostname", "url_get_hostname", (*url.URL).Hostname),
		part("getPort", "url_get_port", (*url.URL).Port),
		part("getEscapedPath", "url_get_escaped_path", (*url.URL).EscapedPath),
		member("getQuery", "url_get_query", urlKind.of, cel.MapType(cel.StringType, cel.ListType(cel.StringType)), func(u *url.URL) ref.Val {
			return types.DefaultTypeAdapter.NativeToValue(map[string][]string(u.Query()))
		}),
	}
}
