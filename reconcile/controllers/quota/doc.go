// Package quota holds the controller that counts what namespaces use of their ResourceQuotas.
package quota
