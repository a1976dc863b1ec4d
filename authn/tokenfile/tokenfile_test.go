package tokenfile_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
)

func Example() {
	entries, err := tokenfile.Parse(strings.NewReader("s3cret,jane,17,\"dev,ops\"\nt0ken,robot,\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens, err := tokenfile.New(entries)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer s3cret")
	u, known, err := tokens.Authenticate(r)
	fmt.Println(u.Name, u.UID, u.Groups, known, err)
	// Output: jane 17 [dev ops] true <nil>
}

func TestParseErrorsNameTheLineOnly(t *testing.T) {
	for file, want := range map[string]string{
		"a,b,c\ns3cret,x":             "line 2: has 2 of at least 3 columns",
		"a,b,c\n\n,x,y":               "line 3: the token is empty",
		"s3cret,,y":                   "line 1: the user name is empty",
		"s3cret,a,\nx,b,\ns3cret,c,":  "line 3: the same token as on line 1",
		"a,b,c\ns3\"cret,x,y":         "line 2, column 3: bare",
		"a,b,c\n\"s3cret,x,y\nd,e,f ": "record on line 2; parse error on line 3",
		" s3cret,a,b":                 "line 1: the token begins or ends with a space",
	} {
		_, err := tokenfile.Parse(strings.NewReader(file))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
			continue
		}
		if strings.Contains(err.Error(), "s3") {
			t.Errorf("%q: the error quotes the token: %v", file, err)
		}
	}
}

func TestAuthenticate(t *testing.T) {
	tokens, err := tokenfile.New([]tokenfile.Entry{{Token: "s3cret", User: user.Info{Name: "jane"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		headers  []string
		known    bool
		refused  bool
		describe string
	}{
		{nil, false, false, "no header"},
		{[]string{"Basic czNjcmV0"}, false, false, "another scheme"},
		{[]string{"Bearer s3cret"}, true, false, "the token"},
		{[]string{"Bearer s3cre"}, false, true, "a prefix"},
		{[]string{"Bearer S3CRET"}, false, true, "other case"},
		{[]string{"Bearer s3cret", "Bearer s3cret"}, false, true, "two headers"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = test.headers
		_, known, err := tokens.Authenticate(r)
		if known != test.known || (err != nil) != test.refused {
			t.Errorf("%s: known %v, error %v", test.describe, known, err)
		}
		if err != nil && strings.Contains(strings.ToLower(err.Error()), "s3cre") {
			t.Errorf("%s: the error quotes the token: %v", test.describe, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	jane := user.Info{Name: "jane"}
	for name, entries := range map[string][]tokenfile.Entry{
		"empty token": {{User: jane}},
		"empty user":  {{Token: "s3cret"}},
		"twice":       {{Token: "s3cret", User: jane}, {Token: "s3cret", User: jane}},
	} {
		if _, err := tokenfile.New(entries); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: New has the error %v, want one that does not quote the token", name, err)
		}
	}
}

// FuzzParse shows that every file which parses makes an authenticator, that
// each of its tokens finds its own user, and that no error quotes a token.
func FuzzParse(f *testing.F) {
	f.Add("a,b,c\n")
	f.Add("a,b,c,\"d, e\"\n\"x\"\"y\",z,\n")
	f.Add(",,,")
	f.Fuzz(func(t *testing.T, file string) {
		entries, err := tokenfile.Parse(strings.NewReader(file))
		if err != nil {
			return
		}
		tokens, err := tokenfile.New(entries)
		if err != nil {
			t.Fatalf("parsed, but %v", err)
		}
		for _, e := range entries {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", "Bearer "+e.Token)
			u, known, err := tokens.Authenticate(r)
			if !known || err != nil || u.Name != e.User.Name || !slices.Equal(u.Groups, e.User.Groups) {
				t.Fatalf("Authenticate with %q = %v, %v, %v, want %q with the groups %q", e.Token, u, known, err, e.User.Name, e.User.Groups)
			}
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		entries := make([]tokenfile.Entry, n)
		for i := range entries {
			entries[i] = tokenfile.Entry{Token: fmt.Sprint("token-", i), User: user.Info{Name: "u"}}
		}
		tokens, err := tokenfile.New(entries)
		if err != nil {
			b.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer token-0")
		b.Run(fmt.Sprintf("tokens=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, known, _ := tokens.Authenticate(r); !known {
					b.Fatal("not known")
				}
			}
		})
	}
}

func TestRead(t *testing.T) {
	tokens, err := tokenfile.Read([]byte("s3cret,jane,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer s3cret")
	if u, known, err := tokens.Authenticate(r); !known || u.Name != "jane" {
		t.Errorf("Authenticate = %v, %v, %v, want jane", u, known, err)
	}
	if allocs := testing.AllocsPerRun(100, func() { tokens.Authenticate(r) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if _, err := tokenfile.Read([]byte("s3cret,jane")); err == nil {
		t.Error("a line of two columns was read")
	}
}
