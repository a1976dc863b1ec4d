package matchcel_test

import (
	"context"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission/webhook/matchcel"
	"github.com/planekit/planekit/authz"
)

// TestLibraries has the examples of Kubernetes' documentation, and what is wrong.
func TestLibraries(t *testing.T) {
	conditions, err := matchcel.New(matchcel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, asked := podRequest()
	for _, c := range []struct{ expression, err string }{
		{"[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [1, 3].sum() == 4 && [1, 3].min() == 1 && [1, 3].max() == 3 && ['a', 'b', 'b'].indexOf('b') == 1 && ['a', 'b', 'b'].lastIndexOf('b') == 2", ""},
		{"'abc 123'.find('[0-9]+') == '123' && 'abc 123'.find('xyz') == '' && '123 abc 456'.findAll('[0-9]*', 2) == ['123', ''] && 'a1 b2'.findAll('[0-9]') == ['1', '2']", ""},

		{"url('https://example.com:80/path/to?x=a&x=b#f').getHost() == 'example.com:80' && url('https://[::1]:80/').getHostname() == '::1'", ""},
		{"url('https://example.com/').getPort() == '' && url('https://example.com:8443').getPort() == '8443' && url('/path').getScheme() == ''", ""},
		{"url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'", ""},
		{"url('https://example.com/path?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']} && url('/a?k=a').getQuery()['k'][0] == 'a'", ""},
		{"isURL('https://user:pass@example.com:80/p?q=v#f') && isURL('/absolute-path') && !isURL('../relative-path') && !isURL('https://a:b:c/') && isURL('//h:st/x')", ""},
		{"url('https://a/b') == url('https://a/b') && url('https://a/b') != url('https://a/c')", ""},
		{"url('../relative').getHost() == ''", "URL parse error during conversion from string"},

		{"isIP('127.0.0.1') && isIP('::1') && !isIP('fe80::1%en0') && !isIP('::ffff:1.2.3.4') && !isIP('1.2.3.04') && !isIP('a')", ""},
		{"ip('127.0.0.1') == ip('127.0.0.1') && ip('::1') == ip('0:0::1') && ip('::1') != ip('::2') && string(ip('0:0::1')) == '::1'", ""},
		{"ip.isCanonical('127.0.0.1') && ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD') && !ip.isCanonical('2001:db8::0:0:0:abcd')", ""},
		{"ip('127.0.0.1').family() == 4 && ip('::1').family() == 6 && ip('0.0.0.0').isUnspecified() && ip('::1').isLoopback()", ""},
		{"ip('224.0.0.1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast() && ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()", ""},
		{"ip('1.2.3') == ip('1.2.3.4')", `IP Address "1.2.3" parse error during conversion from string`},
		{"ip('::ffff:1.2.3.4').family() == 4", "IPv4-mapped IPv6 address"},
		{"ip.isCanonical('fe80::1%en0')", `IP address "fe80::1%en0" with zone value is not allowed`},

		{"isCIDR('192.168.0.0/16') && isCIDR('::1/128') && !isCIDR('192.168.0.0/33') && !isCIDR('192.168.0.0') && !isCIDR('::ffff:1.2.3.4/96')", ""},
		{"cidr('192.168.0.0/24').containsIP('192.168.0.1') && cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && !cidr('192.168.0.0/24').containsIP('192.168.1.1')", ""},
		{"cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24') && cidr('192.168.0.0/16').containsCIDR(cidr('192.168.0.0/16')) && !cidr('192.168.1.0/24').containsCIDR('192.168.0.0/16')", ""},
		{"cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24') && cidr('192.168.0.1/24') != cidr('192.168.0.0/24')", ""},
		{"cidr('::1/128').prefixLength() == 128 && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'", ""},
		{"cidr('10.0.0.0/8').containsIP('x')", `IP Address "x" parse error`},
		{"cidr('10.0.0.0/8').containsCIDR('x')", "network address parse error during conversion from string"},

		{"isQuantity('1.3G') && isQuantity('200K') == false && isQuantity('200k') && !isQuantity('Three')", ""},
		{"quantity('50000000G').isInteger() && quantity('50k').asInteger() == 50000 && !quantity('1.5').isInteger() && quantity('9999999999999999999999999999999999999G').isInteger() == false", ""},
		{"sign(quantity('50k')) == 1 && sign(quantity('-1')) == -1 && sign(quantity('0')) == 0 && quantity('50.703k').asApproximateFloat() == 50703.0", ""},
		{"quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('50k').add(20) == quantity('50020') && quantity('50k').sub(quantity('20k')) == quantity('30k') && quantity('50k').sub(20000) == quantity('30k')", ""},
		{"quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('50M').compareTo(quantity('50Mi')) == -1 && quantity('150Mi').isGreaterThan(quantity('100Mi')) && quantity('50M').isLessThan(quantity('100M'))", ""},
		{"quantity('1Ki') == quantity('1024') && quantity('1') != quantity('2')", ""},
		{"quantity('1.5').asInteger() == 1", "cannot convert value to integer"},
		{"quantity('x').isInteger()", "quantities must match the regular expression"},

		{"!format.dns1123Label().validate('my-label-name').hasValue() && format.dns1123Label().validate('A').hasValue() && format.dns1123Subdomain().validate('a.b').orValue([]) == []", ""},
		{"format.named('dns1123Label').hasValue() && !format.named('unknown').hasValue() && format.named('uuid').value() == format.uuid()", ""},
		{"[format.dns1035Label().validate('my-label-name'), format.qualifiedName().validate('apiextensions.k8s.io/v1beta1'), format.dns1123LabelPrefix().validate('my-label-prefix-'), format.dns1123SubdomainPrefix().validate('mysubdomain.prefix.-'), format.dns1035LabelPrefix().validate('my-label-prefix-')].all(e, !e.hasValue())", ""},
		{"[format.uri().validate('http://example.com'), format.uuid().validate('123e4567-e89b-12d3-a456-426614174000'), format.byte().validate('aGVsbG8='), format.date().validate('2021-01-01'), format.datetime().validate('2021-01-01T00:00:00Z'), format.labelValue().validate('')].all(e, !e.hasValue())", ""},
		{"format.uuid().validate('x').value() == ['does not match the UUID format'] && format.byte().validate('a').value() == ['invalid base64'] && format.date().validate('2021-02-30').value() == ['invalid date'] && format.datetime().validate('2021-01-01T24:00:00Z').value() == ['invalid datetime']", ""},

		{"isSemver('1.0.0') && !isSemver('v1.0') && isSemver('v1.0', true) && !isSemver('01.0.0') && isSemver('01.0.0', true) && !isSemver('200K') && !isSemver('1.0-alpha', true)", ""},
		{"semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3 && semver('v1.2', true) == semver('1.2.0') && semver('v00.0', true) == semver('0.0.0')", ""},
		{"semver('1.0.0').isLessThan(semver('1.1.0')) && semver('1.0.0-alpha').isLessThan(semver('1.0.0')) && semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta')) && semver('1.0.0-2').isLessThan(semver('1.0.0-11'))", ""},
		{"semver('1.2.3').compareTo(semver('1.2.3+build')) == 0 && semver('2.0.0').isGreaterThan(semver('1.9.9')) && semver('1.0.0-a').compareTo(semver('1.0.0-a.b')) == -1", ""},
		{"semver('1.0').major() == 1", "no Major.Minor.Patch elements found"},
		{"semver('1.0.0-01').major() == 1", "without leading zeros"},
		{"semver('1.0.0+').major() == 1", "build metadata"},
	} {
		match, err := conditions.Compile(list(c.expression))
		if err != nil {
			t.Errorf("Compile(%s): %v", c.expression, err)
			continue
		}
		if got, err := match(t.Context(), r, asked); got != (c.err == "") || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v, want %q", c.expression, got, err, c.err)
		}
	}
}

// TestSelectors: the server's authorizer receives the selectors of a check.
func TestSelectors(t *testing.T) {
	narrowed := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.FieldIs("spec.nodeName", "n") && len(a.Labels) == 1 && a.Labels[0].Operator == authz.Exists {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	conditions, err := matchcel.New(matchcel.Config{Authorizer: narrowed})
	if err != nil {
		t.Fatal(err)
	}
	r, asked := podRequest()
	for selectors, want := range map[string]bool{
		".fieldSelector('spec.nodeName=n').labelSelector('a')":    true,
		".fieldSelector('spec.nodeName!=n').labelSelector('a')":   false,
		".fieldSelector('spec.nodeName=n').labelSelector('a in')": false,
		"": false,
	} {
		match, err := conditions.Compile(list("authorizer.group('').resource('pods')" + selectors + ".check('list').allowed()"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := match(t.Context(), r, asked); got != want || err != nil {
			t.Errorf("a check with the selectors %q matches: %t, %v, want %t", selectors, got, err, want)
		}
	}
}

// TestLibraryCosts: a long text costs what reading it does, so that a condition
// cannot do it without end.
func TestLibraryCosts(t *testing.T) {
	conditions, err := matchcel.New(matchcel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, asked := podRequest()
	long := "'" + strings.Repeat("a", 1000) + "'"
	for _, each := range []string{"isIP(" + long + ")", "isQuantity(" + long + ")", "isSemver(" + long + ")", "isCIDR(" + long + ")",
		"format.dns1123Label().validate(" + long + ").hasValue()", "url('/'+" + long + ").getHost() == 'x'"} {
		match, err := conditions.Compile(list("[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, " + each + " || true))))"))
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := match(t.Context(), r, asked); ok || err == nil || !strings.Contains(err.Error(), "cost") {
			t.Errorf("10000 times %.30s... = %t, %v, want false and an error with %q", each, ok, err, "cost")
		}
	}
}
