// Package deps holds the rule of who may import whom, and its test holds every package of the module to it. It also
// finds exported names that no other package uses.
package deps
