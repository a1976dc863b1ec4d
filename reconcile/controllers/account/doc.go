// Package account holds the controllers of credentials in namespaces: [ServiceAccount] creates the
// service accounts that every namespace has, [Token] fills token secrets, and [RootCA] publishes the
// certificate authority of the API server.
package account
