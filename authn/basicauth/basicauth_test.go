package basicauth_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/basicauth"
	"github.com/planekit/planekit/authn/user"
)

func Example() {
	entries, err := basicauth.Parse(strings.NewReader("s3cret,jane,17,\"dev,ops\"\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	passwords, err := basicauth.New(entries)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.SetBasicAuth("jane", "s3cret")
	u, known, err := passwords.Authenticate(r)
	fmt.Println(u.Name, u.UID, u.Groups, known, err)
	// Output: jane 17 [dev ops] true <nil>
}

func basic(credentials string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
}

func TestAuthenticate(t *testing.T) {
	a, err := basicauth.Read([]byte("s3cret,jane,1\n\"a:b, c\",joe,2\nsäcret,jürgen,3\n s ,spaced,4\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		headers []string
		known   string
		refused bool
	}{
		"no header":              {},
		"bearer":                 {headers: []string{"Bearer amFuZTpzM2NyZXQ="}},
		"another scheme":         {headers: []string{"Basics amFuZTpzM2NyZXQ="}},
		"empty header":           {headers: []string{""}},
		"good":                   {headers: []string{"Basic amFuZTpzM2NyZXQ="}, known: "jane"},
		"scheme in lower case":   {headers: []string{"basic  amFuZTpzM2NyZXQ= "}, known: "jane"},
		"colons in the password": {headers: []string{basic("joe:a:b, c")}, known: "joe"},
		"more than ASCII":        {headers: []string{basic("jürgen:säcret")}, known: "jürgen"},
		"spaces":                 {headers: []string{basic("spaced: s ")}, known: "spaced"},
		"wrong password":         {headers: []string{basic("jane:s3cre")}, refused: true},
		"another's password":     {headers: []string{basic("joe:s3cret")}, refused: true},
		"unknown user":           {headers: []string{basic("root:s3cret")}, refused: true},
		"other case":             {headers: []string{basic("Jane:s3cret")}, refused: true},
		"no password":            {headers: []string{basic("jane:")}, refused: true},
		"no name":                {headers: []string{basic(":s3cret")}, refused: true},
		"no colon":               {headers: []string{basic("jane")}, refused: true},
		"nothing":                {headers: []string{"Basic"}, refused: true},
		"not base64":             {headers: []string{"Basic jane:s3cret"}, refused: true},
		"no padding":             {headers: []string{"Basic amFuZTpzM2NyZXQ"}, refused: true},
		"two headers":            {headers: []string{"Basic amFuZTpzM2NyZXQ=", "Basic amFuZTpzM2NyZXQ="}, refused: true},
		"and a bearer header":    {headers: []string{"Basic amFuZTpzM2NyZXQ=", "Bearer x"}, refused: true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = test.headers
		u, known, err := a.Authenticate(r)
		if known != (test.known != "") || (err != nil) != test.refused || known && u.Name != test.known {
			t.Errorf("%s: %+v, known %v, error %v", name, u, known, err)
		}
		if len(test.headers) > 1 && !errors.Is(err, authn.ErrManyAuthorizations) {
			t.Errorf("%s: Authenticate has the error %v, want %v", name, err, authn.ErrManyAuthorizations)
		}
		if err != nil && (strings.Contains(err.Error(), "s3cre") || strings.Contains(err.Error(), "jane") || strings.Contains(err.Error(), "amFu")) {
			t.Errorf("%s: the error quotes the header: %v", name, err)
		}
	}
}

// TestUnknownUserLooksLikeWrongPassword: the response does not
// reveal whether there is such a user.
func TestUnknownUserLooksLikeWrongPassword(t *testing.T) {
	a, err := basicauth.Read([]byte("s3cret,jane,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, name := range []string{"jane", "nobody"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth(name, "guess")
		_, _, err := a.Authenticate(r)
		errs = append(errs, err)
	}
	if errs[0] == nil || errs[0] != errs[1] {
		t.Errorf("%v and %v", errs[0], errs[1])
	}
}

func TestParseErrorsNameTheLineOnly(t *testing.T) {
	for file, want := range map[string]string{
		"a,b,c\ns3cret,x":               "line 2: has 2 of at least 3 columns",
		"a,b,c\n\n,x,y":                 "line 3: the password is empty",
		"s3cret,,y":                     "line 1: the user name is empty",
		"s3cret,jane,\nx,b,\ny,jane,":   "line 3: the same user name as on line 1",
		"s3cret,a:b,":                   "line 1: the user name has a colon",
		"a,b,c\n\"s3\ncret\",x,":        "line 2: the user name or the password has a control character",
		"s3cret,\"x\x7f\",":             "line 1: the user name or the password has a control character",
		"s3cret,jane,1,dev,ops":         "line 1: has 5 columns",
		"a,b,c\ns3\"cret,x,y":           "line 2, column 3: bare",
		"a,b,c\n\"s3cret,jane,y\nd,e,f": "record on line 2; parse error on line 3",
	} {
		_, err := basicauth.Parse(strings.NewReader(file))
		if err == nil || !strings.Contains(err.Error(), "password file: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
			continue
		}
		if strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "jane") {
			t.Errorf("%q: the error quotes the line: %v", file, err)
		}
		if _, err := basicauth.Read([]byte(file)); err == nil {
			t.Errorf("%q: read, though it does not parse", file)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	jane := user.Info{Name: "jane"}
	for name, entries := range map[string][]basicauth.Entry{
		"empty password": {{User: jane}},
		"empty user":     {{Password: "s3cret"}},
		"colon":          {{Password: "s3cret", User: user.Info{Name: "a:b"}}},
		"control":        {{Password: "s3\x00cret", User: jane}},
		"twice":          {{Password: "s3cret", User: jane}, {Password: "other", User: jane}},
	} {
		if _, err := basicauth.New(entries); err == nil || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: New has the error %v, want one that does not quote the password", name, err)
		}
	}
	if _, err := basicauth.New([]basicauth.Entry{{"same", jane}, {"same", user.Info{Name: "joe"}}}); err != nil {
		t.Errorf("two users with one password: %v", err)
	}
}

// FuzzParse shows that every file which parses makes an authenticator that knows
// each user by the password, and no other password.
func FuzzParse(f *testing.F) {
	f.Add("a,b,c\n")
	f.Add("a,b,c,\"d, e\"\n\"x\"\"y:\",z,\n")
	f.Add(",,,")
	f.Add("\"a\r\nb\",\xff,\x80")
	f.Fuzz(func(t *testing.T, file string) {
		entries, err := basicauth.Parse(strings.NewReader(file))
		if err != nil {
			return
		}
		a, err := basicauth.New(entries)
		if err != nil {
			t.Fatalf("parsed, but %v", err)
		}
		for _, e := range entries {
			r := httptest.NewRequest("GET", "/", nil)
			r.SetBasicAuth(e.User.Name, e.Password)
			u, known, err := a.Authenticate(r)
			if !known || err != nil || u.Name != e.User.Name || !slices.Equal(u.Groups, e.User.Groups) {
				t.Fatalf("Authenticate of %q = %v, %v, %v, want this user with the groups %q", e.User.Name, u, known, err, e.User.Groups)
			}
			r.SetBasicAuth(e.User.Name, e.Password+"x")
			if _, known, err := a.Authenticate(r); known || err == nil {
				t.Fatalf("%q with another password: %v %v", e.User.Name, known, err)
			}
		}
	})
}

// FuzzHeader shows that a header is believed only if net/http reads the same name
// and password out of it.
func FuzzHeader(f *testing.F) {
	a, err := basicauth.Read([]byte("s3cret,jane,1\nb:c,joe,2"))
	if err != nil {
		f.Fatal(err)
	}
	passwords := map[string]string{"jane": "s3cret", "joe": "b:c"}
	f.Add("Basic amFuZTpzM2NyZXQ=")
	f.Add("bAsIc " + basic("joe:b:c")[6:])
	f.Add("Basic amFuZTpzM2Ny\nZXQ=")
	f.Add("Basic\tamFuZTpzM2NyZXQ=")
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = []string{header}
		u, known, err := a.Authenticate(r)
		if known && (err != nil || u == nil) || !known && u != nil {
			t.Fatalf("Authenticate of %q = %v, %v, %v, want no error and a user if known, else no user", header, u, known, err)
		}
		if !known {
			return
		}
		scheme, encoded, _ := strings.Cut(strings.TrimSpace(header), " ")
		r.Header.Set("Authorization", scheme+" "+strings.TrimSpace(encoded))
		if name, password, ok := r.BasicAuth(); !ok || name != u.Name || passwords[name] != password {
			t.Fatalf("%q is %s", header, u.Name)
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	a, err := basicauth.Read([]byte("s3cret,jane,1\n"))
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.SetBasicAuth("jane", "s3cret")
	b.ReportAllocs()
	for b.Loop() {
		if _, known, _ := a.Authenticate(r); !known {
			b.Fatal("not known")
		}
	}
}
