package kubecel

import "testing"

// FuzzParse parses texts as versions, addresses and dates: a text that is parsed, printed and
// parsed again gives the same value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1.2.3", "v1.02", "1.0.0-alpha.1+b.2", "..", "v", "-", "10.0.0.0/8", "::1%a", "1Ki", "2021-01-01T00:00:00.5Z", "https://a/b#c", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		strict, err := parseVersion(text)
		if loose, also := parseLoosely(text); err == nil && (also != nil || compareVersions(strict, loose) != 0) {
			t.Errorf("%q is %v, and loosely %v, %v", text, strict, loose, also)
		}
		if err == nil && compareVersions(strict, strict) != 0 {
			t.Errorf("%q is not itself", text)
		}
		if a, err := parseIP(text); err == nil {
			if again, err := parseIP(a.String()); err != nil || !ips.same(a, again) {
				t.Errorf("%q is %v, then %v, %v", text, a, again, err)
			}
		}
		if p, err := parseCIDR(text); err == nil {
			if again, err := parseCIDR(p.String()); err != nil || !cidrs.same(p, again) {
				t.Errorf("%q is %v, then %v, %v", text, p, again, err)
			}
		}
		if u, err := parseURL(text); err == nil && u == nil {
			t.Error(text)
		}
		if q, err := quantityKind.parse(text); err == nil && !quantityKind.same(q, q) {
			t.Error(text)
		}
		for name, f := range formats {
			if wrong := f.errors(text); len(wrong) > 0 && wrong[0] == "" {
				t.Errorf("%s: %q is wrong for no reason", name, text)
			}
		}
	})
}
