package compat

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	loginPage = "/login"
	secret    = "the secret of the clients"
)

var errUnknown = errors.New("unknown")

// people is the provider's storage: one user, who logs in when asked, the client programs, and the
// key. The other methods of the library's storage are for flows that the tests do not use.
type people struct {
	op.Storage
	clients []string

	mu sync.Mutex
	// The fields below are guarded by mu.

	key      signingKey
	life     time.Duration
	claims   map[string]any
	requests map[string]*login // by ID
	codes    map[string]string // IDs by code
}

func newPeople(clients ...string) *people {
	return &people{clients: clients, life: time.Hour, claims: map[string]any{"groups": []string{"engineering", "design"}},
		requests: map[string]*login{}, codes: map[string]string{}}
}

func (s *people) tell(change func(*people)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// logIn is the action of a user on the page to which the provider redirects.
func (s *people) logIn(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.requests[id]
	if !ok {
		return errUnknown
	}
	done := *l
	done.done = true
	s.requests[id] = &done
	return nil
}

// login is one attempt to log in.
type login struct {
	asked *oidc.AuthRequest
	id    string
	done  bool
	at    time.Time
}

func (l *login) GetID() string                      { return l.id }
func (l *login) GetACR() string                     { return "" }
func (l *login) GetAMR() []string                   { return []string{"pwd"} }
func (l *login) GetAudience() []string              { return []string{l.asked.ClientID} }
func (l *login) GetAuthTime() time.Time             { return l.at }
func (l *login) GetClientID() string                { return l.asked.ClientID }
func (l *login) GetNonce() string                   { return l.asked.Nonce }
func (l *login) GetRedirectURI() string             { return l.asked.RedirectURI }
func (l *login) GetResponseType() oidc.ResponseType { return l.asked.ResponseType }
func (l *login) GetResponseMode() oidc.ResponseMode { return l.asked.ResponseMode }
func (l *login) GetScopes() []string                { return l.asked.Scopes }
func (l *login) GetState() string                   { return l.asked.State }
func (l *login) GetSubject() string                 { return "1234567890" }
func (l *login) Done() bool                         { return l.done }
func (l *login) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: l.asked.CodeChallenge, Method: l.asked.CodeChallengeMethod}
}

func (s *people) CreateAuthRequest(_ context.Context, asked *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &login{asked: asked, id: rand.Text(), at: time.Now()}
	s.requests[l.id] = l
	return l, nil
}

func (s *people) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.requests[id]; ok {
		return l, nil
	}
	return nil, errUnknown
}

func (s *people) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	id := s.codes[code]
	s.mu.Unlock()
	return s.AuthRequestByID(ctx, id)
}

func (s *people) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = id
	return nil
}

func (s *people) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, id)
	maps.DeleteFunc(s.codes, func(_, of string) bool { return of == id })
	return nil
}

func (s *people) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	return rand.Text(), time.Now().Add(time.Hour), nil
}

func (s *people) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil // SetUserinfoFromRequest does
}

func (s *people) SetUserinfoFromRequest(_ context.Context, u *oidc.UserInfo, asked op.IDTokenRequest, scopes []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.Subject = asked.GetSubject()
	if slices.Contains(scopes, oidc.ScopeEmail) {
		u.Email, u.EmailVerified = "jane.doe@example.com", true
	}
	for name, value := range s.claims {
		if name != "groups" || slices.Contains(scopes, "groups") {
			u.AppendClaims(name, value)
		}
	}
	return nil
}

func (s *people) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.clients, id) {
		return nil, errUnknown
	}
	return program{id, s.life}, nil
}

func (s *people) AuthorizeClientIDSecret(_ context.Context, id, given string) error {
	if !slices.Contains(s.clients, id) || given != secret {
		return errUnknown
	}
	return nil
}

func (s *people) Health(context.Context) error { return nil }

// program is a client that may ask users to log in.
type program struct {
	id   string
	life time.Duration
}

func (p program) GetID() string                       { return p.id }
func (p program) RedirectURIs() []string              { return []string{callback} }
func (p program) PostLogoutRedirectURIs() []string    { return nil }
func (p program) ApplicationType() op.ApplicationType { return op.ApplicationTypeWeb }
func (p program) AuthMethod() oidc.AuthMethod         { return oidc.AuthMethodPost }
func (p program) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (p program) GrantTypes() []oidc.GrantType         { return []oidc.GrantType{oidc.GrantTypeCode} }
func (p program) LoginURL(id string) string            { return loginPage + "?request=" + url.QueryEscape(id) }
func (p program) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeBearer }
func (p program) IDTokenLifetime() time.Duration       { return p.life }
func (p program) DevMode() bool                        { return false }
func (p program) IsScopeAllowed(scope string) bool     { return scope == "groups" }
func (p program) IDTokenUserinfoClaimsAssertion() bool { return true }
func (p program) ClockSkew() time.Duration             { return 0 }
func (p program) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
func (p program) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}

// signingKey is the key, for signing and for publication.
type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

func (k signingKey) ID() string                                  { return k.id }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k signingKey) Key() any                                    { return k.key }

type publicKey struct{ signingKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return k.key.Public() }

func (s *people) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key, nil
}

func (s *people) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s *people) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []op.Key{publicKey{s.key}}, nil
}
