package matchcel

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/webhook/matchcel"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/cel/environment"
)

var expressions = flag.Int("expressions", 10_000, "random expressions to compare")

// templates have X, Y and Z as placeholders for texts.
var templates = []string{
	"isURL(X)", "url(X) == url(Y)", "url(X).getHost() == Y", "url(X).getHostname() != ''", "url(X).getPort() == ''", "url(X).getScheme() == 'https'",
	"url(X).getEscapedPath() == Y", "url(X).getQuery() == url(Y).getQuery()", "url(X).getQuery().size() > 0",
	"isIP(X)", "ip(X) == ip(Y)", "string(ip(X)) == Y", "ip.isCanonical(X)", "ip(X).family() == 4", "ip(X).isUnspecified()", "ip(X).isLoopback()",
	"ip(X).isLinkLocalMulticast()", "ip(X).isLinkLocalUnicast()", "ip(X).isGlobalUnicast()",
	"isCIDR(X)", "cidr(X) == cidr(Y)", "string(cidr(X)) == Y", "cidr(X).containsIP(Y)", "cidr(X).containsIP(ip(Y))", "cidr(X).containsCIDR(Y)", "cidr(X).containsCIDR(cidr(Y))",
	"cidr(X).ip() == ip(Y)", "cidr(X).prefixLength() > 20", "cidr(X).masked() == cidr(Y)", "cidr(X).masked() == cidr(X)",
	"isQuantity(X)", "quantity(X) == quantity(Y)", "quantity(X).isInteger()", "quantity(X).asInteger() > 5", "quantity(X).asApproximateFloat() > 1.0", "sign(quantity(X)) == 1",
	"quantity(X).compareTo(quantity(Y)) == 1", "quantity(X).isLessThan(quantity(Y))", "quantity(X).isGreaterThan(quantity(Y))",
	"quantity(X).add(quantity(Y)) == quantity(Z)", "quantity(X).sub(quantity(Y)).add(3).sub(-4) == quantity(Z)",
	"isSemver(X)", "isSemver(X, true)", "semver(X) == semver(Y)", "semver(X).compareTo(semver(Y)) == -1", "semver(X, true).isLessThan(semver(Y, true))",
	"semver(X, true).isGreaterThan(semver(Y))", "semver(X, true).major() == 1", "semver(X).minor() == 2", "semver(X).patch() == 3",
	"format.named(X).hasValue()", "format.named('uuid').value() == format.uuid()", "format.dns1123Label().validate(X).hasValue()", "format.dns1123Label().validate(X).orValue([]).size() == 2",
	"format.dns1123Subdomain().validate(X).hasValue()", "format.dns1035Label().validate(X).hasValue()", "format.qualifiedName().validate(X).hasValue()",
	"format.dns1123LabelPrefix().validate(X).hasValue()", "format.dns1123SubdomainPrefix().validate(X).hasValue()", "format.dns1035LabelPrefix().validate(X).hasValue()",
	"format.labelValue().validate(X).hasValue()", "format.uri().validate(X).hasValue()", "format.uuid().validate(X).hasValue()",
	"format.byte().validate(X).hasValue()", "format.date().validate(X).hasValue()", "format.datetime().validate(X).hasValue()",
	"X.find(Y) == Z", "X.findAll(Y).size() > 1", "[X, Y, Z].isSorted()", "[X, Y, Z].min() == X", "[X, Y, Z].max() == Z", "[X, Y].indexOf(Z) == 1", "[X, Y].lastIndexOf(Z) == 0",
	"[X.size(), Y.size()].sum() == 5",
}

var texts = []string{
	"https://example.com:80/path?k=a&k=b#f", "https://[::1]:80/", "/path", "../relative", "http://a b/", "https://a:b:c/", "mailto:a@b", "/a?b=%zz", "//host/x", "",
	"127.0.0.1", "::1", "0:0::1", "fe80::1%en0", "::ffff:1.2.3.4", "1.2.3.04", "224.0.0.1", "255.255.255.255", "FE80::1", "0.0.0.0", "192.168.0.1",
	"192.168.0.0/16", "192.168.0.1/24", "::1/128", "::/0", "0.0.0.0/0", "10.0.0.0/33", "::ffff:1.2.3.4/96", "192.168.0.0/016", "fe80::1%a/64",
	"1", "0", "-1", "1.5", "50k", "50Ki", "200K", "1e3", "1e-3", "100m", "9223372036854775807", "9223372036854775808", "99999999999999999999G", "+5", "1.5Gi", "three",
	"1.2.3", "v1.2.3", "1.2", "v1", "01.2.3", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-01", "1.0.0+build.1", "1.0.0+", "1.0.0-", "1.2.3.4", "1.0-alpha", "00.0", "18446744073709551616.0.0", "1.0.0-a_b", "v01.002.0003",
	"dns1123Label", "a", "my-label", "my-label-", "A.b", "a.b/c-d", "a/b/c", "1a", strings.Repeat("a", 64), "123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000",
	"aGVsbG8=", "aGVsbG8", "aGVs\nbG8=", "2021-01-01", "2021-02-30", "2021-01-01T00:00:00Z", "2021-01-01t24:00:00z", "2021-01-01T00:00:60Z", "2021-01-01T23:59:59.123+01:00", "2021-01-01 00:00:00Z",
	"[0-9]+", "b*", "a|b",
}

// TestSameMatches: both are true, both are false, or both fail.
func TestSameMatches(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.NewExpressions)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := matchcel.New(matchcel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for range *expressions {
		fill := strings.NewReplacer("X", literal(random), "Y", literal(random), "Z", literal(random))
		expression := fill.Replace(templates[random.IntN(len(templates))])
		got, want := evaluate(t, ours, expression), stock(env, expression)
		if got != want {
			t.Errorf("seed %d: %s: %s, stock %s", seed, expression, got, want)
		}
		counts[got]++
	}
	t.Log(counts)
	for _, outcome := range []string{"true", "false", "fails"} {
		if counts[outcome] < *expressions/50 {
			t.Errorf("seed %d: %v shows little", seed, counts)
		}
	}
}

// literal returns one of the texts, sometimes with a change.
func literal(random *rand.Rand) string {
	text := texts[random.IntN(len(texts))]
	if n := len(text); n > 0 && random.IntN(4) == 0 {
		i := random.IntN(n)
		text = text[:i] + string("0.-:/aT+ %"[random.IntN(10)]) + text[i+random.IntN(2):]
	}
	return fmt.Sprintf("%q", text)
}

func evaluate(t *testing.T, conditions *matchcel.Compiler, expression string) string {
	match, err := conditions.Compile([]registration.MatchCondition{{Name: "c", Expression: expression}})
	if err != nil {
		return "does not compile"
	}
	ok, err := match(t.Context(), &admission.Request{Operation: admission.Create, Object: &corev1.Pod{}}, &admissionapi.AdmissionRequest{Operation: admissionapi.Create})
	if err != nil {
		return "fails"
	}
	return fmt.Sprint(ok)
}

func stock(env *cel.Env, expression string) string {
	tree, issues := env.Compile(expression)
	if issues.Err() != nil {
		return "does not compile"
	}
	program, err := env.Program(tree)
	if err != nil {
		return "does not compile"
	}
	value, _, err := program.Eval(map[string]any{})
	if err != nil {
		return "fails"
	}
	return fmt.Sprint(value.Value())
}
